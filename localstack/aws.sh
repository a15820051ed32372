#!/usr/bin/env bash
# DynamoDB Local and ElasticMQ together: what stands in for AWS in tests.
#
#   localstack/aws.sh up              starts both
#   localstack/aws.sh down            stops both
#   localstack/aws.sh env             prints the variables that make tests and functions use them: eval "$(localstack/aws.sh env)"
#   localstack/aws.sh run COMMAND...  starts both, runs a command with the variables, and stops both
#
# DYNAMODB_PORT and SQS_PORT default to 8123 and 9324.
set -euo pipefail
here=$(dirname "$0")
dynamodb=${DYNAMODB_PORT:-8123} sqs=${SQS_PORT:-9324}

both() {
	PORT=$dynamodb "$here/dynamodb-local.sh" "$1" >&2
	PORT=$sqs "$here/elasticmq.sh" "$1" >&2
}

variables() {
	echo "export AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:$dynamodb AWS_ENDPOINT_URL_SQS=http://127.0.0.1:$sqs"
	echo "export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true"
}

case ${1:-} in
up | down) both "$1" ;;
env) variables ;;
run)
	shift
	trap 'both down' EXIT
	both up
	eval "$(variables)"
	"$@"
	;;
*)
	echo "usage: $0 up|down|env|run COMMAND..." >&2
	exit 2
	;;
esac

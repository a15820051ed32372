#!/usr/bin/env bash
# DynamoDB Local, ElasticMQ and, for all other services, MiniStack: what stands in for AWS in tests.
#
#   localstack/aws.sh up              starts them
#   localstack/aws.sh down            stops them
#   localstack/aws.sh env             prints the variables that make tests and functions use them: eval "$(localstack/aws.sh env)"
#   localstack/aws.sh run COMMAND...  starts them, runs a command with the variables, and stops them
#
# DYNAMODB_PORT, SQS_PORT and REST_PORT default to 8123, 9324 and 4568.
set -euo pipefail
here=$(dirname "$0")
dynamodb=${DYNAMODB_PORT:-8123} sqs=${SQS_PORT:-9324} rest=${REST_PORT:-4568}

all() {
	PORT=$dynamodb "$here/dynamodb-local.sh" "$1" >&2
	PORT=$sqs "$here/elasticmq.sh" "$1" >&2
	PORT=$rest "$here/ministack.sh" "$1" >&2
}

variables() {
	for service in SNS EVENTBRIDGE LAMBDA S3 SECRETS_MANAGER SSM STS; do echo "export AWS_ENDPOINT_URL_$service=http://127.0.0.1:$rest"; done
	echo "export AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:$dynamodb AWS_ENDPOINT_URL_SQS=http://127.0.0.1:$sqs"
	echo "export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true"
}

case ${1:-} in
up | down) all "$1" ;;
env) variables ;;
run)
	shift
	trap 'all down' EXIT
	all up
	eval "$(variables)"
	"$@"
	;;
*)
	echo "usage: $0 up|down|env|run COMMAND..." >&2
	exit 2
	;;
esac

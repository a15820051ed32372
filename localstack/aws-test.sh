#!/usr/bin/env bash
# Runs what needs an AWS against DynamoDB Local and ElasticMQ: starts both, and stops them at the end. Arguments are packages; by default all that need one.
# A test that is skipped all the same is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
dynamodb=${DYNAMODB_PORT:-8123} sqs=${SQS_PORT:-9324}
packages=("$@")
[ $# -gt 0 ] || packages=(./internal/dedup/dynamostore/... ./internal/queue/sqsqueue/... ./functions/...)

stop() {
	PORT=$dynamodb localstack/dynamodb-local.sh down
	PORT=$sqs localstack/elasticmq.sh down
}
trap stop EXIT
PORT=$dynamodb localstack/dynamodb-local.sh up
PORT=$sqs localstack/elasticmq.sh up

export AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:$dynamodb AWS_ENDPOINT_URL_SQS=http://127.0.0.1:$sqs
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true
# Most of the time of the queue's tests is waiting, so many run side by side.
go test -count=1 -parallel 16 -v "${packages[@]}" 2>&1 | tee .tools/aws-test.log | grep -E '^(--- FAIL|--- SKIP|FAIL|ok|panic)|^ +[a-z_]+_?test\.go|^ +--- (FAIL|SKIP)' || true
if grep -qE '^ *--- (FAIL|SKIP)|^FAIL|^panic' .tools/aws-test.log; then
	echo "failed or skipped: see .tools/aws-test.log" >&2
	exit 1
fi

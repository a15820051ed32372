#!/bin/sh
# Sends an order with the AWS command line, until the server has it.
#
#   sh sqs.sh http://127.0.0.1:8080 orders order-1 customer-7 '{"item": 7}'
#
# The key comes from the caller, who has it after a crash, too: an order number, the id of a row.
set -eu
url=$1 stream=$2 key=$3 group=$4 body=$5
# once dev checks no credentials. In AWS leave them and the endpoint out, and send to the queue
# IngressFifoQueueUrl, with the attribute once-stream, and the stream in the deduplication id.
export AWS_ENDPOINT_URL_SQS="$url" AWS_DEFAULT_REGION=any AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any

tries=0
until queue=$(aws sqs get-queue-url --queue-name "$stream.fifo" --query QueueUrl --output text) &&
	id=$(aws sqs send-message --queue-url "$queue" --message-body "$body" --message-group-id "$group" \
		--message-deduplication-id "$key" --query MessageId --output text); do
	# It may have been accepted, so the key stays the same.
	tries=$((tries + 1))
	if [ "$tries" -eq 100 ]; then exit 1; fi
	sleep 1
done
echo "sent $key $id"

"""Sends an order with the AWS SDK, until the server has it.

    python sqs.py http://127.0.0.1:8080 orders order-1 customer-7 '{"item": 7}'

The key comes from the caller, who has it after a crash, too: an order number, the id of a row.
"""

import random
import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

url, stream, key, group, body = sys.argv[1:]
# once dev checks no credentials. In AWS leave out everything but the name "sqs", and send to the
# queue IngressFifoQueueUrl, with the attribute once-stream, and the stream in the deduplication
# id.
sqs = boto3.client("sqs", endpoint_url=url, region_name="any", aws_access_key_id="any", aws_secret_access_key="any")
pause = 0.1
while True:
    try:
        queue = sqs.get_queue_url(QueueName=f"{stream}.fifo")["QueueUrl"]
        answer = sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=key)
        break
    except ClientError as e:
        if e.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
            raise  # it would be refused again
    except BotoCoreError:
        pass  # no answer: the order may have been accepted, so the key stays the same
    time.sleep(pause * random.uniform(0.5, 1))
    pause = min(2 * pause, 10)
print("sent", key, answer["MessageId"])

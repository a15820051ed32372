"""One state change for each message behind the idempotency of Powertools for AWS Lambda, as its documentation shows it.

main.py first|duplicate MESSAGES WARM: warms up, says "ready", waits for a line, works, and says how much CPU that took.
"""

import json
import os
import resource
import sys
import uuid

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

case, messages, warm = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
reply = "x" * 20_480 if case == "duplicate" else "ok"
accounts = os.environ["BENCH_ACCOUNTS"]
client = boto3.client("dynamodb")
store = DynamoDBPersistenceLayer(table_name=os.environ["BENCH_RECORDS"])
config = IdempotencyConfig(event_key_jmespath="id", expires_after_seconds=24 * 3600)


class Context:
    def get_remaining_time_in_millis(self):
        return 30_000


config.register_lambda_context(Context())


@idempotent_function(data_keyword_argument="message", persistence_store=store, config=config)
def handle(message):
    client.update_item(
        TableName=accounts,
        Key={"pk": {"S": message["group"]}},
        UpdateExpression="SET cents = :n",
        ExpressionAttributeValues={":n": {"N": str(message["n"])}},
    )
    return {"status": 201, "body": reply}


def message(n):
    name = uuid.uuid4().hex
    return {"id": name, "group": name, "n": n}


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


known = message(0)
handle(message=known)
for n in range(warm):
    handle(message=known if case == "duplicate" else message(n))
print("ready", flush=True)
sys.stdin.readline()
work = [known if case == "duplicate" else message(n) for n in range(messages)]
start = cpu()
for m in work:
    handle(message=m)
print(json.dumps({"cpu_seconds": cpu() - start}), flush=True)

"""The handler that all consumers of bench/faults have, behind the idempotency of Powertools for AWS Lambda, as its documentation shows it.

It speaks the Lambda Runtime API, as the managed runtime does.
"""

import http.client
import json
import os
import time

import boto3
import urllib3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

client = boto3.client("dynamodb")
pool = urllib3.PoolManager(retries=False)
store = DynamoDBPersistenceLayer(table_name=os.environ["FAULTS_RECORDS"])
config = IdempotencyConfig(event_key_jmespath="id", expires_after_seconds=24 * 3600)


class Context:
    def __init__(self, deadline):
        self.deadline = deadline

    def get_remaining_time_in_millis(self):
        return max(0, self.deadline - int(time.time() * 1000))


@idempotent_function(data_keyword_argument="message", persistence_store=store, config=config)
def handle(message):
    out = client.update_item(
        TableName=os.environ["FAULTS_COUNTERS"],
        Key={"pk": {"S": message["id"]}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="UPDATED_NEW",
    )
    answer = pool.request(
        "POST",
        os.environ["FAULTS_RECEIVER"],
        body=json.dumps({"id": message["id"], "count": int(out["Attributes"]["n"]["N"])}),
        headers={"Content-Type": "application/json", "Webhook-Id": message["id"]},
    )
    if answer.status >= 300:
        raise RuntimeError(f"the receiver answers {answer.status}")
    return {"status": 200}


def serve():
    api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    root = "/2018-06-01/runtime/invocation/"
    while True:
        api.request("GET", root + "next")
        answer = api.getresponse()
        event = json.loads(answer.read())
        config.register_lambda_context(Context(int(answer.headers["Lambda-Runtime-Deadline-Ms"])))
        what, result = "/response", {}
        try:
            for record in event["Records"]:
                handle(message=json.loads(record["body"]))
        except Exception as e:
            what, result = "/error", {"errorType": type(e).__name__, "errorMessage": str(e)}
        api.request("POST", root + answer.headers["Lambda-Runtime-Aws-Request-Id"] + what, json.dumps(result))
        api.getresponse().read()


serve()

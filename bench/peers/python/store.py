"""Fills a table of idempotency records with Powertools for AWS Lambda. Prints the reply of each line.

store.py TABLE < PAYLOADS: one JSON text a line. It ends in the middle of the line that has "die" as a value.
"""

import json
import os
import sys
import uuid

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent, idempotent_function

store = DynamoDBPersistenceLayer(table_name=sys.argv[1])
whole = IdempotencyConfig(expires_after_seconds=3600)
keyed = IdempotencyConfig(expires_after_seconds=3600, event_key_jmespath='headers."Idempotency-Key"')


class Context:
    def get_remaining_time_in_millis(self):
        return 30_000


whole.register_lambda_context(Context())


@idempotent_function(data_keyword_argument="payload", persistence_store=store, config=whole)
def work(payload):
    if payload == "die":
        os._exit(9)
    return {"was": payload, "run": uuid.uuid4().hex}


@idempotent(persistence_store=DynamoDBPersistenceLayer(table_name=sys.argv[1]), config=keyed)
def charge(event, context):
    return {"statusCode": 201, "headers": {"Content-Type": "application/json", "X-Charge": "é"}, "body": json.dumps({"of": event["body"], "id": uuid.uuid4().hex})}


for line in sys.stdin:
    payload = json.loads(line)
    if isinstance(payload, dict) and "headers" in payload:
        print(json.dumps(charge(payload, Context())), flush=True)
    else:
        print(json.dumps(work(payload=payload)), flush=True)

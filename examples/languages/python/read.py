"""Prints the orders of a customer that are new since the last run.

    python read.py http://127.0.0.1:8080 orders customer-7 offset
"""

import json
import pathlib
import sys
from urllib.parse import quote

import requests

url, stream, group, path = sys.argv[1:]
offset = pathlib.Path(path)
after = offset.read_text() if offset.exists() else None
while True:
    # With wait=20 the server waits for the next entry, if there is none: to follow the log, go on
    # in place of the break.
    log = f"{url}/v1/streams/{stream}/groups/{quote(group, safe='')}/log"
    answer = requests.get(log, params={"after": after, "wait": 0}, timeout=30)
    answer.raise_for_status()
    page = answer.json()
    for entry in page["entries"]:
        print(entry["number"], entry["id"], json.dumps(entry["body"]), flush=True)
    after = page["next"]
    offset.write_text(after)  # a program with a database saves it in the transaction of its work
    if page["end"] or not page["entries"]:
        break

"""Sends orders, each until the server has it.

    python send.py http://127.0.0.1:8080 orders outbox.json customer-7 '{"item": 7}'

An order and its key are in the outbox before the first try. If the program was killed, its next
run sends the order that is left there, under the same key.
"""

import json
import os
import pathlib
import random
import sys
import time
import uuid

import requests


def write_down(outbox, group, body):
    """Saves an order with a new key, so that it survives a crash."""
    new = outbox.with_suffix(".new")
    with new.open("w") as file:
        json.dump({"key": str(uuid.uuid4()), "group": group, "body": body}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(outbox)


def send(url, stream, order):
    """Returns the answer: the handler's reply, or the server's receipt. Every try has the same key."""
    headers = {
        "Idempotency-Key": order["key"],
        "Once-Group": order["group"],
        "Content-Type": "application/json",
        "Prefer": "wait=10",  # for the handler's reply
    }
    pause = 0.1
    while True:
        asked = 0.0
        try:
            answer = requests.post(f"{url}/v1/streams/{stream}/messages", order["body"].encode(), headers=headers, timeout=30)
            again = answer.status_code >= 500 or answer.status_code in (408, 409, 425, 429)
            if answer.headers.get("Once-Reply") == "true" or not again:
                return answer
            asked = float(answer.headers.get("Retry-After", 0))
        except requests.RequestException:
            pass  # no answer: the order may have been accepted, so the key stays the same
        time.sleep(max(asked, pause * random.uniform(0.5, 1)))
        pause = min(2 * pause, 10)


def deliver(url, stream, outbox):
    """Sends the order in the outbox, and removes it."""
    answer = send(url, stream, json.loads(outbox.read_text()))
    print(answer.status_code, answer.text.strip(), "replayed:", answer.headers.get("Idempotent-Replayed"), flush=True)
    if answer.ok or answer.headers.get("Once-Reply") == "true":
        outbox.unlink()
    else:
        outbox.replace(outbox.with_suffix(".refused"))  # it would be refused again: a person has to look


if __name__ == "__main__":
    url, stream, path, *order = sys.argv[1:]
    outbox = pathlib.Path(path)
    if outbox.exists():
        deliver(url, stream, outbox)
    if order:
        write_down(outbox, *order)
        deliver(url, stream, outbox)

"""Sends one order under a key, and sends it again until the server has it.

    python3 send.py order-1 customer-7 '{"item": 7}'
"""

import random
import sys
import time
import urllib.error
import urllib.request


def send(stream, key, group, body, base="http://127.0.0.1:8080"):
    """Returns status, body and headers of the answer. Raises HTTPError if the message is refused."""
    request = urllib.request.Request(
        f"{base}/v1/streams/{stream}/messages",
        data=body,
        headers={
            "Idempotency-Key": key,
            "Once-Group": group,
            "Content-Type": "application/json",
            "Prefer": "wait=10",
        },
    )
    pause = 0.1
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as e:
            if e.code < 500 and e.code not in (408, 409, 425, 429):
                raise  # the same message would be refused again
        except OSError:
            pass  # no answer: the message may have been accepted, so the key stays the same
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, 10)


if __name__ == "__main__":
    key, group, body = sys.argv[1:]
    status, answer, headers = send("orders", key, group, body.encode())
    print(status, answer.decode().strip(), "replayed:", headers["Idempotent-Replayed"])

"""Receives webhooks: verifies each, and does its work once.

    python receive.py 8091 out/webhook-secret out/python.db
"""

import base64
import hashlib
import hmac
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

port, secret_file, database = sys.argv[1:]
with open(secret_file) as f:
    secret = base64.b64decode(f.read().strip().removeprefix("whsec_"))
db = sqlite3.connect(database)
db.execute("CREATE TABLE IF NOT EXISTS seen (id TEXT, incarnation TEXT, PRIMARY KEY (id, incarnation))")
db.execute("CREATE TABLE IF NOT EXISTS orders (body TEXT)")


def genuine(headers, body):
    """Reports whether the signature is right and less than five minutes old."""
    at = headers.get("webhook-timestamp", "")
    if not at.isdigit() or abs(time.time() - int(at)) > 300:
        return False
    signed = f"{headers['webhook-id']}.{at}.".encode() + body
    want = "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    return any(hmac.compare_digest(want, s) for s in headers.get("webhook-signature", "").split())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not genuine(self.headers, body):
            return self.answer(401)
        with db:  # one transaction: the id and the work
            new = db.execute(
                "INSERT OR IGNORE INTO seen VALUES (?, ?)",
                (self.headers["webhook-id"], self.headers.get("Once-Incarnation", "")),
            ).rowcount
            if new:
                db.execute("INSERT INTO orders VALUES (?)", (body.decode(),))
        print("received" if new else "known", self.headers["webhook-id"], body.decode(), flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


print(f"receiving at http://127.0.0.1:{port}/hook", flush=True)
HTTPServer(("127.0.0.1", int(port)), Receiver).serve_forever()

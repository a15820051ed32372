"""Consumes one session of a stream into SQLite: each entry becomes one row.

    python3 consumer.py URL STREAM SESSION HOLDER free|mine|now rows.db

It needs only requests and sqlite3. It prints "open", and at last "end" or "fenced".
"""

import sqlite3
import sys
import time

import requests

url, stream, name, holder, take, database = sys.argv[1:]
session = f"{url}/v1/streams/{stream}/sessions/{name}"
http = requests.Session()
db = sqlite3.connect(database, timeout=60)
db.execute("PRAGMA journal_mode = WAL")
db.execute("CREATE TABLE IF NOT EXISTS rows (id TEXT, session TEXT, number INTEGER)")
db.execute("""CREATE TABLE IF NOT EXISTS once_cursor (stream TEXT, session TEXT, life INTEGER,
    fence INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (stream, session, life))""")


class Fenced(Exception):
    """Another consumer has opened the session."""


def call(method, path="", **options):
    """Repeats a call until it has an answer: every call may be repeated."""
    while True:
        try:
            r = http.request(method, session + path, timeout=30, **options)
            if r.status_code < 500 and r.status_code != 429:
                return r
        except requests.RequestException:
            pass  # the server may or may not have done it
        time.sleep(0.1)


def open_session(take):
    while (r := call("POST", json={"holder": holder, "take": take, "lease": "1s"})).status_code == 409:
        time.sleep(0.1)  # held by another consumer, until its lease ends
    r.raise_for_status()
    opened = r.json()
    with db:  # raises the fence here, and reads the number, in one statement
        fence, number = db.execute("""INSERT INTO once_cursor VALUES (?, ?, ?, ?, 0)
            ON CONFLICT (stream, session, life) DO UPDATE SET fence = max(fence, excluded.fence)
            RETURNING fence, number""", (stream, name, opened["life"], opened["fence"])).fetchone()
    if fence != opened["fence"]:
        raise Fenced
    print("open", flush=True)
    return opened["life"], fence, opened["cursor"], number


def report(fence, cursor, number):
    """Tells the server the number that is in the database already."""
    if cursor != number and call("POST", "/commit", json={"fence": fence, "from": cursor, "to": number}).status_code == 409:
        raise Fenced


def consume(take):
    life, fence, cursor, number = open_session(take)
    report(fence, cursor, number)
    while True:
        r = call("GET", "/entries", params={"fence": fence, "after": number, "max": 1000, "wait": 5})
        if r.status_code == 409:
            raise Fenced
        r.raise_for_status()
        entries = r.json()["entries"] if r.status_code == 200 else []
        if not entries:
            continue
        work = [(e["id"], name, e["number"]) for e in entries if e["kind"] == "message"]
        to = entries[-1]["number"]
        with db:  # the work and the cursor, in one transaction
            db.executemany("INSERT INTO rows VALUES (?, ?, ?)", work)
            if db.execute("""UPDATE once_cursor SET number = ? WHERE stream = ? AND session = ?
                    AND life = ? AND fence = ? AND number = ?""", (to, stream, name, life, fence, number)).rowcount != 1:
                raise Fenced  # and nothing of this transaction is kept
        report(fence, number, to)
        number = to
        if entries[-1]["kind"] == "end":
            return "end"


while True:
    try:
        print(consume(take), flush=True)
        break
    except Fenced:
        print("fenced", flush=True)
        break
    except sqlite3.OperationalError:
        take = "mine"  # the transaction may or may not be committed: open again before anything else

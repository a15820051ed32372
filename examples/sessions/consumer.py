"""python3 consumer.py URL STREAM SESSION HOLDER free|mine|now rows.db   # prints open, and at last end or fenced
Consumes a session of a stream into SQLite: each entry becomes one row, whatever is killed."""
import sqlite3
import sys
import time
import requests

url, stream, name, holder, take, path = sys.argv[1:]
session, http, db = f"{url}/v1/streams/{stream}/sessions/{name}", requests.Session(), sqlite3.connect(path, timeout=60)
db.executescript("""PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS rows (id TEXT, session TEXT, number INTEGER);
    CREATE TABLE IF NOT EXISTS once_cursor (stream TEXT, session TEXT, life INTEGER, fence INTEGER NOT NULL,
        number INTEGER NOT NULL, PRIMARY KEY (stream, session, life));""")

def call(method, what="", **options):
    """Repeats a call until it has an answer; a refusal is a RuntimeError with the type of the problem."""
    while True:
        try:
            r = http.request(method, session + what, timeout=30, **options)
        except requests.RequestException:
            time.sleep(0.1)  # the server may have done it: every call can be repeated
            continue
        if r.ok:
            return r.json() if r.content else {}
        kind = r.json()["type"].rpartition("#")[2] if "problem+json" in r.headers.get("Content-Type", "") else r.reason
        if kind != "held" and r.status_code not in (408, 429) and r.status_code < 500:
            raise RuntimeError(kind)
        time.sleep(float(r.headers.get("Retry-After", 0.1)))

def consume():
    opened = call("POST", json={"holder": holder, "take": take, "lease": "1s"})
    row, done, page = (stream, name, opened["life"], opened["fence"]), opened["cursor"], {}
    with db:  # raises the fence here, and reads the number, in one statement
        (fence, number), = db.execute("""INSERT INTO once_cursor VALUES (?, ?, ?, ?, 0) ON CONFLICT DO UPDATE
            SET fence = max(fence, excluded.fence) RETURNING fence, number""", row).fetchall()
    if fence != opened["fence"] or number == 0 < done:
        raise RuntimeError("fenced" if fence != opened["fence"] else "the database has no number of this session")
    print("open", flush=True)
    while True:
        done = call("POST", "/commit", json={"fence": fence, "from": done, "to": number})["cursor"]  # is in the database
        if page.get("end"):
            return "end"
        page = call("GET", "/entries", params={"fence": fence, "after": number, "max": 1000, "wait": 5})
        if entries := page.get("entries"):
            with db:  # the work and the number, in one transaction; after an error nothing of it is kept
                db.executemany("INSERT INTO rows VALUES (?, ?, ?)", [
                    (e["id"], name, e["number"]) for e in entries if e["kind"] == "message" and not e.get("dead")])
                if db.execute("""UPDATE once_cursor SET number = ? WHERE stream = ? AND session = ? AND life = ?
                        AND fence = ? AND number = ?""", (entries[-1]["number"], *row, number)).rowcount != 1:
                    raise RuntimeError("fenced")
            number = entries[-1]["number"]

while True:
    try:
        sys.exit(print(consume(), flush=True))
    except (sqlite3.OperationalError, RuntimeError) as error:
        kind, take = str(error), "mine"  # the transaction may be committed: open again before anything else
        if kind in ("fenced", "ended"):  # ended: nothing is left for a new session
            sys.exit(print("end" if kind == "ended" else kind, flush=True))
        if isinstance(error, RuntimeError) and kind != "moved":
            sys.exit("a person has to decide: " + kind)  # expired, ahead, retired, unknown-stream …

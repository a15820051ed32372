"""The handler that all consumers of bench/faults have, in Python: it counts the message in the state of its group, and sends the count."""

from once_handler import handler


@handler
def count(state, message, attempt):
    n = (state or {"count": 0})["count"] + 1
    attempt.send("receiver", {"id": message.id, "count": n})
    return {"count": n}

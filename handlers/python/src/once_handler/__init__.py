"""Handlers of once in Python: each message changes the state of its group once.

A handler is a function of the group's state, one message, and an attempt. It returns the new
state. What the attempt has collected (a reply, effects, entries of the log, timers) becomes real
together with the state, or not at all.

    from once_handler import handler

    @handler
    def stock(state, message, attempt):
        change = message.json()
        if change["take"] > (state or 0):
            attempt.reply(409, {"error": "not enough in stock"})
            return state
        attempt.send("warehouse", change)
        return state - change["take"]

    if __name__ == "__main__":
        stock.run()
"""

from ._exec import take_streams_early
from ._handler import Attempt, Handler, handler
from ._message import Message, Reject, RequestError
from ._signature import verify

__all__ = ["Attempt", "Handler", "Message", "Reject", "RequestError", "handler", "verify"]

take_streams_early()

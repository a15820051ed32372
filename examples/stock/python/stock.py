"""Keeps the stock of a warehouse: the handler of examples/stock in Python.

In this folder, ``once dev`` starts it. It needs the package of handlers/python.
"""

from dataclasses import dataclass

from once_handler import Attempt, Message, Reject, handler


@dataclass
class Stock:
    """The state of one group. Here a group is one item of the warehouse."""

    OnHand: int = 0


@dataclass
class Change:
    """The body of a message: how many pieces come in, or go out."""

    Add: int = 0
    Take: int = 0


@handler(state=Stock)
def change(stock: Stock, message: Message, attempt: Attempt[Stock]) -> Stock:
    """Book one message. However often the message arrives, the stock changes once."""
    try:
        c = message.json(Change)
    except ValueError as e:
        raise Reject("not a change of stock") from e
    if c.Take > stock.OnHand + c.Add:
        attempt.reply(409, "not enough in stock", content_type="text/plain")
        return stock
    stock.OnHand += c.Add - c.Take
    attempt.send("warehouse", c)
    attempt.reply(200, stock)
    return stock


if __name__ == "__main__":
    change.run()

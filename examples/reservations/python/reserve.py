"""Reserves pieces for orders, for 15 minutes: the handler of examples/reservations in Python."""

from dataclasses import dataclass, field
from datetime import timedelta

from once_handler import Attempt, Message, Reject, handler

HOLD_TIME = timedelta(minutes=15)


@dataclass
class Item:
    """The state of one group: one item of the warehouse."""

    OnHand: int = 0
    Reserved: dict[str, int] = field(default_factory=dict)  # pieces, by order


@dataclass
class Request:
    """A body: pieces come in, or are reserved for an order, or the order is paid."""

    Add: int = 0
    Reserve: int = 0
    Order: str = ""
    Paid: bool = False


@handler(state=Item)
def reserve(item: Item, message: Message, attempt: Attempt[Item]) -> Item:
    """Process one message.

    A reservation sets a timer under the name of its order, which releases the pieces; a payment
    cancels it. If both are there at the same time, the one that is committed first counts.
    """
    if message.timer:
        pieces = item.Reserved.pop(message.timer)
        item.OnHand += pieces
        attempt.send("shop", {"Order": message.timer, "Pieces": pieces})
        return item
    request = message.json(Request)
    order = request.Order
    if request.Add > 0:
        item.OnHand += request.Add
    elif not order or (request.Reserve <= 0 and not request.Paid):
        raise Reject("not a request")
    elif request.Paid:
        if order not in item.Reserved:
            attempt.reply(409, {"Reason": "not reserved"})
            return item
        attempt.cancel(order)
        attempt.send("warehouse", {"Order": order, "Pieces": item.Reserved.pop(order)})
    elif order in item.Reserved or request.Reserve > item.OnHand:
        attempt.reply(409, {"Reason": "reserved before, or not enough in stock"})
        return item
    else:
        item.OnHand -= request.Reserve
        item.Reserved[order] = request.Reserve
        attempt.timer(order, HOLD_TIME)
    attempt.reply(200, item)
    return item


if __name__ == "__main__":
    reserve.run()

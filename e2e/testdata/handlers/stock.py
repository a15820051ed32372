"""The handler of examples/stock as a function of AWS Lambda. It fails at the first try of a message
with the header flaky."""

from once_handler import Reject, handler


@handler
def stock(state, message, attempt):
    change = message.json()
    on_hand = (state or {"OnHand": 0})["OnHand"] + change.get("Add", 0) - change.get("Take", 0)
    if on_hand < 0:
        raise Reject("not enough in stock")
    if message.headers.get("flaky") and message.try_ == 1:
        raise RuntimeError("not now")
    attempt.send("warehouse", {"Add": change.get("Add", 0), "Take": change.get("Take", 0)})
    attempt.reply(200, {"OnHand": on_hand})
    return {"OnHand": on_hand}


lambda_handler = stock.lambda_handler

import unittest

from once_handler import Attempt, Message, Reject
from stock import Stock, change


def message(body: str) -> Message:
    return Message(id="order-1", stream="stock", group="lamp", body=body)


class TestStock(unittest.TestCase):
    def test_an_order_is_taken_from_the_stock(self) -> None:
        attempt = Attempt(Stock(10))
        self.assertEqual(change(attempt.state, message('{"Take":3}'), attempt), Stock(7))
        self.assertEqual(attempt.effects[0]["body"], {"Add": 0, "Take": 3})
        self.assertEqual(attempt.replied["body"], {"OnHand": 7})

    def test_an_order_without_stock_is_answered_no(self) -> None:
        attempt = Attempt(Stock())
        change(attempt.state, message('{"Take":3}'), attempt)
        self.assertEqual(attempt.replied["status"], 409)

    def test_other_bodies_are_refused(self) -> None:
        for body in ("", "ten", "[]", '{"Take":"3"}'):
            attempt = Attempt(Stock())
            with self.assertRaisesRegex(Reject, "not a change of stock"):
                change(attempt.state, message(body), attempt)


if __name__ == "__main__":
    unittest.main()

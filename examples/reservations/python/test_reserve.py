import unittest

from once_handler import Attempt, Message
from reserve import Item, reserve


def run(item: Item, body: str = "", timer: str = "") -> Attempt[Item]:
    attempt = Attempt(item)
    reserve(item, Message(id="m", stream="reservations", group="lamp", body=body, timer=timer), attempt)
    return attempt


class TestReserve(unittest.TestCase):
    def setUp(self) -> None:
        self.item = Item(OnHand=10)
        self.reserved = run(self.item, '{"Reserve":3,"Order":"order-1"}')

    def test_a_reservation_sets_a_timer(self) -> None:
        self.assertEqual(self.item, Item(7, {"order-1": 3}))
        self.assertEqual(self.reserved.effects, [{"timer": "order-1", "after": "900s"}])

    def test_pieces_that_are_not_paid_are_released(self) -> None:
        released = run(self.item, timer="order-1")
        self.assertEqual(self.item, Item(10))
        self.assertEqual(released.effects[0]["body"], {"Order": "order-1", "Pieces": 3})

    def test_a_payment_cancels_the_timer(self) -> None:
        paid = run(self.item, '{"Order":"order-1","Paid":true}')
        self.assertEqual(self.item, Item(7))
        self.assertEqual([e.get("cancel", e.get("to")) for e in paid.effects], ["order-1", "warehouse"])

    def test_pieces_that_are_not_there_are_not_reserved(self) -> None:
        for body in ('{"Reserve":8,"Order":"order-2"}', '{"Reserve":1,"Order":"order-1"}'):
            self.assertEqual(run(self.item, body).replied["status"], 409)
        self.assertEqual(self.item, Item(7, {"order-1": 3}))


if __name__ == "__main__":
    unittest.main()

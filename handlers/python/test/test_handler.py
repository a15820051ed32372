from __future__ import annotations

import json
import unittest
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Optional

from contract import request

from once_handler import Attempt, Message, Reject, RequestError, handler


@handler
def add(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
    """Add the body to the state. A text is refused, 13 fails."""
    number = message.json()
    if isinstance(number, str):
        raise Reject(f"{number} is no number")
    total = (state or 0) + number
    attempt.send("ledger", {"total": total})
    if number == 13:
        raise RuntimeError("an unlucky number")
    attempt.reply(200, total)
    return total


def reply(total: int) -> dict[str, Any]:
    return {"status": 200, "body": total, "content_type": "application/json"}


def sent(total: int) -> list[dict[str, Any]]:
    return [{"to": "ledger", "body": {"total": total}, "content_type": "application/json"}]


class TestAnswer(unittest.TestCase):
    maxDiff = None

    def test_each_message_has_the_state_that_the_one_before_it_left(self) -> None:
        self.assertEqual(
            add.answer(request(1, 2, state=10)),
            {
                "state": 13,
                "messages": [
                    {"id": "m-1", "reply": reply(11), "effects": sent(11)},
                    {"id": "m-2", "reply": reply(13), "effects": sent(13)},
                ],
            },
        )

    def test_a_new_group_has_the_state_none(self) -> None:
        self.assertEqual(add.answer(request(1))["state"], 1)

    def test_the_handler_remains_a_function(self) -> None:
        attempt: Attempt[Any] = Attempt(10)
        message = Message(id="m-1", body=1, content_type="application/json")
        self.assertEqual(add(10, message, attempt), 11)

    def test_keys_that_are_no_texts_fail_because_they_change_in_json(self) -> None:
        @dataclass
        class Counts:
            of: dict[Any, int] = field(default_factory=dict)

        @handler
        def count(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            key = message.body
            counts = state or {}
            counts[key] = counts.get(key, 0) + 1
            return [(counts,), Counts(counts)]

        self.assertEqual(count.answer(request("7"))["state"], [[{"7": 1}], {"of": {"7": 1}}])
        for key in (7, 1.5, True, None):
            with self.assertRaisesRegex(TypeError, "keys must be texts"):
                count.answer(request(key))
        with self.assertRaisesRegex(TypeError, "7 is int"):
            Attempt(None).send("ledger", Counts({7: 1}))

    def test_the_text_of_a_reject_may_quote_half_of_a_surrogate_pair(self) -> None:
        body = json.loads(r'"\ud83d"')
        answer = add.answer(request(1, body, 2))
        self.assertEqual(answer["messages"][1], {"id": "m-2", "reject": "? is no number"})
        self.assertEqual(answer["state"], 3)

    def test_a_rejected_message_leaves_state_and_the_others_are_answered(self) -> None:
        answer = add.answer(request(1, "no", 2, state=10))
        self.assertEqual(answer["state"], 13)
        self.assertEqual(answer["messages"][1], {"id": "m-2", "reject": "no is no number"})
        self.assertEqual([m["id"] for m in answer["messages"]], ["m-1", "m-2", "m-3"])

    def test_a_rejection_without_a_text_has_one(self) -> None:
        @handler
        def refuse(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            raise Reject("")

        self.assertEqual(
            refuse.answer(request(1))["messages"],
            [{"id": "m-1", "reject": "rejected by the handler"}],
        )

    def test_the_answer_ends_before_a_message_that_fails(self) -> None:
        with self.assertLogs("once_handler", "ERROR") as logs:
            answer = add.answer(request(1, 13, 2, state=10))
        self.assertEqual(
            answer,
            {"state": 11, "messages": [{"id": "m-1", "reply": reply(11), "effects": sent(11)}]},
        )
        self.assertIn("an unlucky number", logs.output[0])

    def test_the_first_message_that_fails_raises(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "an unlucky number"):
            add.answer(request(13, 1))

    def test_a_message_that_fails_does_not_change_the_state_in_place(self) -> None:
        @handler
        def remember(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            state = state or {"seen": []}
            state["seen"].append(message.json())
            if message.json() == 2:
                raise RuntimeError
            return state

        with self.assertLogs("once_handler"):
            answer = remember.answer(request(1, 2, state={"seen": [0]}))
        self.assertEqual(answer["state"], {"seen": [0, 1]})

    def test_a_handler_that_returns_none_keeps_the_state_of_the_attempt(self) -> None:
        @handler
        def change(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            attempt.state = message.json()

        self.assertEqual(change.answer(request({"a": 1}, state=0))["state"], {"a": 1})
        self.assertEqual(change.answer(request(None, state=0))["state"], None, "null clears")

    def test_a_state_that_does_not_change_is_left_out(self) -> None:
        @handler
        def look(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            return state

        for state in (None, 1, {"a": [1.5, "ä"]}):
            self.assertEqual(look.answer(request(0, state=state)), {"messages": [{"id": "m-1"}]})

    def test_a_state_without_a_form_in_json_fails(self) -> None:
        for bad in (float("nan"), {1, 2}, "\ud800", {"a": object()}):

            @handler
            def spoil(state: Any, message: Message, attempt: Attempt[Any], bad: Any = bad) -> Any:
                return bad

            with self.assertRaises((TypeError, ValueError), msg=repr(bad)):
                spoil.answer(request(1))

    def test_a_bad_request_is_named(self) -> None:
        good = request(1)
        message = good["messages"][0]
        for bad in (
            None,
            [],
            {},
            {**good, "messages": []},
            {**good, "messages": {}},
            {**good, "stream": 7},
            {**good, "messages": ["m"]},
            {**good, "messages": [{**message, "id": ""}]},
            {**good, "messages": [{**message, "id": 7}]},
            {**good, "messages": [{**message, "headers": []}]},
            {**good, "messages": [{**message, "try": "1"}]},
            {**good, "messages": [{**message, "accepted": "yesterday"}]},
            {**good, "messages": [{**message, "accepted": "2026-13-27T05:41:39Z"}]},
            {**good, "messages": [{**message, "body_base64": "?"}]},
        ):
            with self.assertRaises(RequestError, msg=repr(bad)):
                add.answer(bad)

    def test_lambda_returns_the_answer_and_raises(self) -> None:
        self.assertEqual(add.lambda_handler(request(1), object())["state"], 1)
        with self.assertRaises(RuntimeError):
            add.lambda_handler(request(13), object())

    def test_async_functions_are_refused(self) -> None:
        async def later(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            return state

        with self.assertRaisesRegex(TypeError, "not async"):
            handler(later)

    def test_generators_are_refused(self) -> None:
        def parts(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            yield state

        with self.assertRaisesRegex(TypeError, "without yield"):
            handler(parts)

    def test_an_attempt_that_has_ended_takes_nothing_more(self) -> None:
        kept: list[Attempt[Any]] = []

        @handler
        def keep(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            kept.append(attempt)
            if message.body == 13:
                raise RuntimeError("unlucky")
            return state

        keep.answer(request(1, 13))
        for late in kept:
            for call in (
                lambda a=late: a.reply(200),
                lambda a=late: a.send("mail"),
                lambda a=late: a.append(1),
                lambda a=late: a.timer("t", "1s"),
                lambda a=late: a.cancel("t"),
            ):
                with self.assertRaisesRegex(RuntimeError, "has ended"):
                    call()
            self.assertEqual((late.replied, late.effects, late.appended), (None, [], []))


class TestAttempt(unittest.TestCase):
    def setUp(self) -> None:
        self.attempt: Attempt[Any] = Attempt(None)

    def effects(self) -> Any:
        return self.attempt._result("m")["effects"]

    def test_effects_keep_their_order(self) -> None:
        a = self.attempt
        a.send("mail", {"to": "x"}, group="customer-7", after="15m", headers={"Trace": "1"})
        a.timer("late", timedelta(minutes=15), "now")
        a.cancel("early")
        self.assertEqual(
            self.effects(),
            [
                {
                    "to": "mail",
                    "group": "customer-7",
                    "after": "15m",
                    "content_type": "application/json",
                    "headers": {"Trace": "1"},
                    "body": {"to": "x"},
                },
                {
                    "timer": "late",
                    "after": "900s",
                    "content_type": "text/plain; charset=utf-8",
                    "body": "now",
                },
                {"cancel": "early"},
            ],
        )

    def test_bodies_are_json_text_or_bytes(self) -> None:
        @dataclass
        class Point:
            x: int = 0

        plain = "text/plain; charset=utf-8"
        for body, content_type, want in (
            (None, None, {}),
            ({"a": 1}, None, {"content_type": "application/json", "body": {"a": 1}}),
            (Point(1), None, {"content_type": "application/json", "body": {"x": 1}}),
            (0, None, {"content_type": "application/json", "body": 0}),
            ("", None, {"content_type": plain, "body": ""}),
            ("a", "text/csv", {"content_type": "text/csv", "body": "a"}),
            ('{"a": 1}', "text/x+json", {"content_type": "text/x+json", "body": {"a": 1}}),
            (b"\xff", None, {"body_base64": "/w=="}),
            (b"\xff", "image/png", {"content_type": "image/png", "body_base64": "/w=="}),
        ):
            self.attempt = Attempt(None)
            self.attempt.append(body, content_type=content_type)
            self.assertEqual(self.attempt._result("m")["append"], [want])

    def test_a_body_is_copied(self) -> None:
        body = {"list": [1]}
        self.attempt.send("mail", body)
        body["list"].append(2)
        self.assertEqual(self.effects()[0]["body"], {"list": [1]})

    def test_the_last_reply_counts(self) -> None:
        self.attempt.reply(200, "first")
        self.attempt.reply(204)
        self.assertEqual(self.attempt._result("m"), {"id": "m", "reply": {"status": 204}})

    def test_durations(self) -> None:
        for after, want in (
            (timedelta(days=7), "604800s"),
            (timedelta(milliseconds=1500), "1500ms"),
            (timedelta(microseconds=1), "1ms"),
            ("1d12h", "1d12h"),
            ("1.5s", "1.5s"),
        ):
            self.attempt = Attempt(None)
            self.attempt.timer("t", after)
            self.assertEqual(self.effects()[0]["after"], want)

    def test_mistakes_are_named_at_once(self) -> None:
        a = self.attempt
        for mistake in (
            lambda: a.reply(99),
            lambda: a.reply(600),
            lambda: a.reply("200"),  # type: ignore[arg-type]
            lambda: a.send(""),
            lambda: a.send(7),  # type: ignore[arg-type]
            lambda: a.send("mail", group=""),
            lambda: a.send("mail", after="soon"),
            lambda: a.send("mail", after=""),
            lambda: a.send("mail", after="1h1d"),
            lambda: a.send("mail", after="٣s"),
            lambda: a.send("mail", after=timedelta(0)),
            lambda: a.send("mail", after=15),  # type: ignore[arg-type]
            lambda: a.send("mail", {1, 2}),
            lambda: a.send("mail", float("inf")),
            lambda: a.send("mail", {}, content_type="text/plain"),
            lambda: a.send("mail", "{", content_type="application/json"),
            lambda: a.send("mail", "\ud800"),
            lambda: a.send("mail", headers={"A": 1}),  # type: ignore[dict-item]
            lambda: a.timer("", "15m"),
            lambda: a.cancel(""),
        ):
            with self.assertRaises((TypeError, ValueError)):
                mistake()


@dataclass
class Item:
    name: str = ""
    price: float = 0.0


@dataclass
class Basket:
    items: list[Item] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    customer: Optional[str] = None  # noqa: UP045 - Python 3.9 evaluates it
    open: bool = True


@handler(state=Basket)
def put(state: Basket, message: Message, attempt: Attempt[Basket]) -> None:
    if message.body:
        state.items.append(message.json(Item))
        state.customer = "customer-7"


EMPTY = {"items": [], "notes": {}, "customer": None, "open": True}
FULL = {**EMPTY, "items": [{"name": "lamp", "price": 9.5}], "customer": "customer-7"}


class TestDataclass(unittest.TestCase):
    def test_a_state_is_a_dataclass(self) -> None:
        answer = put.answer(request({"name": "lamp", "price": 9.5}))
        self.assertEqual(answer["state"], FULL)
        answer = put.answer(request({"name": "bulb", "price": 1}, state=FULL))
        self.assertEqual(
            answer["state"]["items"],
            [{"name": "lamp", "price": 9.5}, {"name": "bulb", "price": 1.0}],
        )

    def test_an_unchanged_state_is_left_out(self) -> None:
        for state in (None, {}, EMPTY):
            self.assertNotIn("state", put.answer(request(None, state=state)))

    def test_a_stored_state_that_does_not_fit_fails(self) -> None:
        for state in (
            7,
            {"items": [{"name": "lamp", "colour": "red"}]},
            {"items": {}},
            {"items": [7]},
            {"items": [{"name": 7}]},
            {"notes": {"a": None}},
            {"open": 1},
            {"items": [{"price": True}]},
        ):
            with self.assertRaisesRegex(Exception, "handler: state", msg=repr(state)):
                put.answer(request(None, state=state))

    def test_a_state_that_cannot_be_made_for_a_new_group_is_no_stored_state(self) -> None:
        @handler(load=lambda value: int(value["n"]), dump=lambda n: {"n": n})
        def count(state: int, message: Message, attempt: Attempt[int]) -> int:
            return state + 1

        with self.assertRaises(TypeError):
            count.answer(request(1))
        with self.assertRaisesRegex(Exception, "^state-unreadable: "):
            count.answer(request(1, state={}))

    def test_fields_that_the_dataclass_does_not_have_are_kept(self) -> None:
        @dataclass
        class Shop:
            open: bool = True
            basket: Basket = field(default_factory=Basket)
            other: Optional[Basket] = None  # noqa: UP045 - Python 3.9 evaluates it
            baskets: dict[str, Basket] = field(default_factory=dict)

        @handler(state=Shop)
        def close(state: Shop, message: Message, attempt: Attempt[Shop]) -> None:
            if message.body:
                state.open, state.other = False, None
                state.baskets.pop("b", None)

        more = {**FULL, "more": {"x": 1}}
        stored = {
            "open": True,
            "basket": more,
            "other": more,
            "baskets": {"a": more, "b": more},
            "extra": [{"y": 2}],
        }
        self.assertNotIn("state", close.answer(request(None, state=stored)))
        answer = close.answer(request(1, 1, state=stored))
        kept = {**stored, "open": False, "other": None, "baskets": {"a": more}}
        self.assertEqual(answer["state"], kept)

    def test_a_dataclass_needs_defaults(self) -> None:
        @dataclass
        class Account:
            cents: int

        with self.assertRaisesRegex(TypeError, "each field of Account needs a default"):
            handler(state=Account)
        with self.assertRaisesRegex(TypeError, "must be a dataclass"):
            handler(state=dict)

        @dataclass
        class Points:
            all: set[int] = field(default_factory=set)

        with self.assertRaises(TypeError):
            handler(state=Points)

    def test_other_types_have_functions(self) -> None:
        @handler(load=lambda v: set(v or []), dump=sorted)
        def see(state: set[int], message: Message, attempt: Attempt[set[int]]) -> set[int]:
            return state | {message.json()}

        self.assertEqual(see.answer(request(2, 1, 2, state=[5]))["state"], [1, 2, 5])


class TestMessage(unittest.TestCase):
    def read(self, **fields: Any) -> Message:
        seen: list[Message] = []

        @handler
        def keep(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            seen.append(message)

        document = request()
        document["messages"] = [{"id": "m-1", "try": 2, **fields}]
        keep.answer(document)
        return seen[0]

    def test_all_fields(self) -> None:
        m = self.read(
            accepted="2026-11-27T05:41:39.123456789+01:00",
            headers={"Trace": "1"},
            source="till",
            epoch=2,
            sequence=3,
            timer="late",
        )
        self.assertEqual(
            (m.id, m.try_, m.stream, m.group, m.headers, m.source, m.epoch, m.sequence, m.timer),
            ("m-1", 2, "stock", "lamp", {"Trace": "1"}, "till", 2, 3, "late"),
        )
        assert m.accepted
        self.assertEqual(m.accepted.isoformat(), "2026-11-27T05:41:39.123456+01:00")
        self.assertEqual((m.body, m.text), (None, ""))

    def test_times(self) -> None:
        for text, want in (
            ("2026-11-27T05:41:39Z", "2026-11-27T05:41:39+00:00"),
            ("2026-11-27T05:41:39.5Z", "2026-11-27T05:41:39.500000+00:00"),
            ("2026-11-27T05:41:39-08:00", "2026-11-27T05:41:39-08:00"),
        ):
            accepted = self.read(accepted=text).accepted
            assert accepted
            self.assertEqual(accepted.isoformat(), want)

    def test_a_body_is_json_text_or_bytes(self) -> None:
        form = "application/x-www-form-urlencoded"  # what curl says unless it is asked
        m = self.read(content_type="application/json", body={"a": 1})
        self.assertEqual((m.body, m.text, m.json()), ({"a": 1}, '{"a":1}', {"a": 1}))
        m = self.read(content_type=form, body='{"a": 1}')
        self.assertEqual((m.body, m.text, m.json()), ('{"a": 1}', '{"a": 1}', {"a": 1}))
        m = self.read(body_base64="/w==")
        self.assertEqual(m.body, b"\xff")
        with self.assertRaises(ValueError):
            _ = m.text
        for body in ("", "{", "NaN", "[" * 100_000):
            with self.assertRaises(ValueError, msg=body[:9]):
                self.read(body=body).json()

    def test_a_message_with_a_body_that_is_not_json_is_refused(self) -> None:
        @handler
        def read(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
            return message.json(Item).name

        for fields, why in (
            ({"body": "lamp"}, "the body is not JSON"),
            ({}, "the body is not JSON"),
            ({"body_base64": "/w=="}, "the body is not JSON"),
            ({"content_type": "application/json", "body_base64": "ew=="}, "the body is not JSON"),
            ({"body": "7"}, "body must be an object"),
            ({"body": '{"name": 7}'}, "body.name must be a string"),
        ):
            document = {**request(), "messages": [{"id": "m-1", **fields}]}
            answer = read.answer(document)
            self.assertEqual(answer, {"messages": [{"id": "m-1", "reject": why}]})

    def test_json_of_a_dataclass(self) -> None:
        body = {"name": "lamp", "price": 1, "more": True}
        m = self.read(content_type="application/json", body=body)
        self.assertEqual(m.json(Item), Item("lamp", 1.0), "unknown fields are ignored")
        for bad in (None, 7, "lamp", [], {"name": None}, {"price": "1"}):
            m = self.read(content_type="application/json", body=bad)
            with self.assertRaises(ValueError, msg=json.dumps(bad)):
                m.json(Item)


if __name__ == "__main__":
    unittest.main()

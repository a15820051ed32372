from __future__ import annotations

import base64
import hashlib
import hmac
import unittest

from once_handler import verify

# The example of the specification of Standard Webhooks.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
AT = 1614265330
HEADERS = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "Webhook-Timestamp": str(AT),
    "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
OTHER = "whsec_" + base64.b64encode(b"another secret of 24 byt").decode()


class TestVerify(unittest.TestCase):
    def test_the_example_of_the_specification(self) -> None:
        self.assertTrue(verify(SECRET, HEADERS, BODY, now=AT))
        self.assertTrue(verify(SECRET[len("whsec_") :], HEADERS, BODY, now=AT))

    def test_a_changed_part_is_noticed(self) -> None:
        self.assertFalse(verify(SECRET, HEADERS, BODY + b" ", now=AT))
        self.assertFalse(verify(OTHER, HEADERS, BODY, now=AT))
        for name, value in (
            ("Webhook-Id", "msg_"),
            ("Webhook-Timestamp", str(AT + 1)),
            ("Webhook-Timestamp", ""),
            ("Webhook-Timestamp", "-" + str(AT)),
            ("Webhook-Timestamp", "9" * 5000),
            ("Webhook-Timestamp", "²"),
            ("Webhook-Signature", ""),
            ("Webhook-Signature", "v1,"),
            ("Webhook-Signature", HEADERS["Webhook-Signature"].replace("v1", "v2")),
            ("Webhook-Signature", HEADERS["Webhook-Signature"] + "ä"),
        ):
            changed = {**HEADERS, name: value}
            self.assertFalse(verify(SECRET, changed, BODY, now=AT), f"{name}: {value:.20}")
        self.assertFalse(verify(SECRET, {}, BODY, now=AT))

    def test_a_request_is_valid_for_the_tolerance(self) -> None:
        for now, want in ((AT + 300, True), (AT - 300, True), (AT + 301, False), (AT - 301, False)):
            self.assertEqual(verify(SECRET, HEADERS, BODY, now=now), want, now - AT)
        self.assertTrue(verify(SECRET, HEADERS, BODY, now=AT + 900, tolerance=900))
        self.assertFalse(verify(SECRET, HEADERS, BODY), "the clock of this machine is the default")

    def test_several_secrets_and_signatures(self) -> None:
        for secrets in (f"{OTHER} {SECRET}", f"{OTHER}\n{SECRET}\n", [OTHER, SECRET]):
            self.assertTrue(verify(secrets, HEADERS, BODY, now=AT))
        signed = f"{HEADERS['Webhook-Id']}.{AT}.".encode() + BODY
        mac = hmac.digest(b"another secret of 24 byt", signed, hashlib.sha256)
        both = f"v1a,x v1,{base64.b64encode(mac).decode()} {HEADERS['Webhook-Signature']}"
        for secret in (SECRET, OTHER):
            self.assertTrue(verify(secret, {**HEADERS, "Webhook-Signature": both}, BODY, now=AT))

    def test_a_bad_secret_is_an_error_without_the_secret(self) -> None:
        for bad in ("", "  ", [], "whsec_", "not base64!", [SECRET, "x"]):
            with self.assertRaises(ValueError, msg=repr(bad)) as e:
                verify(bad, HEADERS, BODY, now=AT)
            self.assertNotIn("not base64!", str(e.exception))


if __name__ == "__main__":
    unittest.main()

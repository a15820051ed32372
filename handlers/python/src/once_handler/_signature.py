"""Signatures of Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from typing import Union

Secrets = Union[str, Iterable[str]]

TOLERANCE = 300
"""How many seconds the time of a request may differ from ours."""


def keys_of(secrets: Secrets) -> list[bytes]:
    """Return the keys of secrets in base64, with or without ``whsec_`` before them.

    A text may have several secrets with white space between them. Raises ValueError if there is
    none, or if one is not base64.
    """
    texts = [secrets] if isinstance(secrets, str) else list(secrets)
    keys = []
    for secret in " ".join(texts).split():
        try:
            key = base64.b64decode(secret.partition("whsec_")[2] or secret, validate=True)
        except ValueError:
            key = b""
        if not key:  # without the secret, which would end in a log
            raise ValueError('a secret must be base64, with or without "whsec_" before it')
        keys.append(key)
    if not keys:
        raise ValueError("there is no secret")
    return keys


def verify(
    secrets: Secrets,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> bool:
    """Report whether one of the secrets has signed a request, at most ``tolerance`` seconds ago.

    The names of the headers may have any case. Several secrets are for a change of the secret.
    """
    return verify_keys(
        keys_of(secrets), headers, body, tolerance, time.time() if now is None else now
    )


def verify_keys(
    keys: list[bytes], headers: Mapping[str, str], body: bytes, tolerance: float, now: float
) -> bool:
    named = {name.lower(): value for name, value in headers.items()}
    at = named.get("webhook-timestamp", "")
    if not (at.isascii() and at.isdigit() and len(at) <= len("9999999999")):
        return False
    if abs(now - int(at)) > tolerance:
        return False
    signed = f"{named.get('webhook-id', '')}.{at}.".encode("latin-1", "replace") + body
    genuine = False
    for key in keys:
        want = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
        for signature in named.get("webhook-signature", "").split():
            genuine |= hmac.compare_digest(want, signature.encode("utf-8", "replace"))
    return genuine

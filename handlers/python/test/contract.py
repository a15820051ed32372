"""Documents of the handler contract, for tests."""

from __future__ import annotations

import json
from typing import Any


def request(*bodies: Any, state: Any = None) -> dict[str, Any]:
    """Return a request with a message m-1, m-2 … for each body, as once makes it."""
    return {
        "stream": "stock",
        "group": "lamp",
        "version": 3,
        "attempt": "a-1",
        "state": state,
        "messages": [
            {
                "id": f"m-{n}",
                "try": 1,
                "accepted": "2026-11-27T05:41:39.123456789Z",
                "content_type": "application/json",
                "body": body,
            }
            for n, body in enumerate(bodies, 1)
        ],
    }


def encode(document: Any) -> bytes:
    return json.dumps(document).encode()

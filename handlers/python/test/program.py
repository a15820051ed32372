"""The program of the tests: a handler that prints, fails, and starts other programs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from once_handler import Attempt, Message, Reject, handler


@handler
def noisy(state: Any, message: Message, attempt: Attempt[Any]) -> Any:
    """Count the messages; the body says what else to do."""
    print("printed by the handler")
    if message.json() == "child":
        subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
        os.write(1, b"written to the descriptor\n")
        print("read", repr(sys.stdin.read()))
    if message.json() == "fail":
        raise RuntimeError("an internal secret\nin two lines")
    if message.json() == "reject":
        raise Reject("no")
    attempt.reply(200, {"pid": os.getpid()})
    return (state or 0) + 1


if "PRINTS" in os.environ:
    print("printed before the first request")

if __name__ == "__main__":
    noisy.run()

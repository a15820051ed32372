from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
import unittest
from typing import Any
from unittest import mock

from contract import encode, request
from program import noisy

from once_handler import _exec

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = [str(HERE / "program.py")]
MODULE = ["-m", "once_handler", "program:noisy"]
FORMS = [SCRIPT, MODULE]
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def run(
    form: list[str], lines: list[bytes], environment: dict[str, str] = BUFFERED
) -> tuple[list[Any], str, int]:
    """Return the answers, the errors, and the exit code of the program."""
    ended = subprocess.run(
        [sys.executable, *form],
        input=b"".join(lines),
        capture_output=True,
        timeout=120,
        cwd=HERE,
        env=environment,
        check=False,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    return answers, ended.stderr.decode(), ended.returncode


class TestExec(unittest.TestCase):
    def test_one_answer_a_line_in_the_order_of_the_requests(self) -> None:
        lines = [encode(request(0, state=n)) + b"\n" for n in (1, 2, 3)]
        for form in FORMS:
            answers, _, code = run(form, lines)
            self.assertEqual([a["state"] for a in answers], [2, 3, 4], form)
            self.assertEqual([a["attempt"] for a in answers], [request(0)["attempt"]] * 3)
            self.assertEqual(code, 0)
            pids = {a["messages"][0]["reply"]["body"]["pid"] for a in answers}
            self.assertEqual(len(pids), 1, "one process answers all requests")

    def test_what_the_program_prints_is_not_in_the_answers(self) -> None:
        for form in FORMS:
            answers, errors, _ = run(form, [encode(request("child")) + b"\n"])
            self.assertEqual([a["state"] for a in answers], [1], form)
            for text in (
                "printed by the handler",
                "printed by a child",
                "written to the descriptor",
                "read ''",
            ):
                self.assertIn(text, errors)

    def test_a_module_may_print_while_it_is_imported(self) -> None:
        buffered = {**BUFFERED, "PRINTS": "1"}
        for form, environment in (
            (SCRIPT, buffered),
            (MODULE, buffered),
            (MODULE, {**buffered, "PYTHONUNBUFFERED": "1"}),
            (SCRIPT, {**buffered, "PYTHONUNBUFFERED": "1", "ONCE_STREAM": "stock"}),
        ):
            answers, errors, _ = run(form, [encode(request(0)) + b"\n"], environment)
            self.assertEqual([a["state"] for a in answers], [1])
            self.assertIn("printed before the first request", errors, form)

    def test_a_failure_is_an_error_and_the_program_goes_on(self) -> None:
        lines = [b"{\n", encode(request()) + b"\n", encode(request("fail")) + b"\n", b"\xff\n"]
        answers, errors, code = run(SCRIPT, [*lines, encode(request(0)) + b"\n"])
        self.assertEqual(code, 0, errors)
        self.assertEqual(
            [a.get("error", "")[:31] for a in answers],
            [
                "JSONDecodeError: Expecting prop",
                "RequestError: a request must ha",
                "RuntimeError: an internal secre",
                "UnicodeDecodeError: 'utf-8' cod",
                "",
            ],
        )
        self.assertIn("RuntimeError: an internal secret", errors)
        self.assertEqual(answers[-1]["state"], 1)

    def test_a_request_that_is_cut_off_has_no_answer(self) -> None:
        answers, errors, code = run(SCRIPT, [encode(request(0)) + b"\n", encode(request(0))])
        self.assertEqual((len(answers), code), (1, 0), errors)

    def test_a_request_that_is_too_long_is_an_error_and_the_next_one_is_answered(self) -> None:
        short = encode(request(0)) + b"\n"
        lines = io.BytesIO(encode(request("x" * 2000)) + b"\n" + short)
        answers = io.BytesIO()
        with mock.patch.object(_exec, "MAX_REQUEST", 1000), mock.patch("sys.stdout", io.StringIO()):
            _exec.serve(noisy, lines, answers)
        first, second = map(json.loads, answers.getvalue().splitlines())
        self.assertEqual(first, {"error": "the request is longer than 1000 bytes"})
        self.assertEqual(second["state"], 1)

    def test_a_request_of_the_largest_size_is_answered(self) -> None:
        line = encode(request(0))
        for limit, answered in ((len(line), True), (len(line) - 1, False)):
            answers = io.BytesIO()
            with mock.patch.object(_exec, "MAX_REQUEST", limit):
                _exec.serve(noisy, io.BytesIO(line + b"\n"), answers)
            self.assertEqual("messages" in json.loads(answers.getvalue()), answered)

    def test_a_pipe_that_closes_ends_the_program_quietly(self) -> None:
        process = subprocess.Popen(
            [sys.executable, *SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=HERE,
            env=BUFFERED,
        )
        assert process.stdin and process.stdout
        process.stdout.close()
        process.stdin.write(encode(request(0)) + b"\n")
        process.stdin.flush()
        _, errors = process.communicate(timeout=120)
        self.assertNotIn(b"Traceback", errors)

    def test_requests_of_other_machines_are_not_taken_without_a_secret(self) -> None:
        for host in ("", "0.0.0.0"):
            arguments = ["-m", "once_handler", "program:noisy", "--port", "0", "--host", host]
            _, errors, code = run(arguments, [])
            self.assertEqual(code, 2, errors)
            self.assertIn("other machines reach 0.0.0.0: give --secret or --insecure", errors)
        listening = subprocess.Popen(
            [sys.executable, *arguments, "--insecure"],
            stdout=subprocess.PIPE,
            cwd=HERE,
            env=BUFFERED,
        )
        assert listening.stdout
        with listening, listening.stdout:
            line = listening.stdout.readline()
            listening.kill()
        self.assertIn(b"program:noisy listens on http://0.0.0.0:", line)

    def test_mistakes_in_the_arguments_are_named(self) -> None:
        for name, want in (
            ("program", "must be MODULE:HANDLER"),
            ("nothing:noisy", "no module 'nothing'"),
            ("program:nothing", "no handler 'nothing'"),
            ("program:os", "decorated with @handler"),
        ):
            _, errors, code = run(["-m", "once_handler", name], [])
            self.assertEqual(code, 2)
            self.assertIn(want, errors)


if __name__ == "__main__":
    unittest.main()

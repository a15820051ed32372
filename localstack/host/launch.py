"""LocalStack 4.14.0 as one ordinary process: no Docker, no downloads. ../localstack.sh starts it.

Lambda functions on provided.* run as processes beside it, which talk to a Lambda Runtime API served here, one server per execution environment; the
architecture that a function names is not looked at. DynamoDB Local and Java come from DYNAMODB_LOCAL_HOME and JAVA_HOME.

Four patches of the pinned release make that work: what runs functions, where DynamoDB Local is, and two mistakes of what polls queues for functions: with
FIFO groups, and with bodies that are JSON.
"""

import contextlib
import http.client
import http.server
import json
import logging
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future, InvalidStateError

ROOT = pathlib.Path(os.environ.setdefault("FILESYSTEM_ROOT", os.path.abspath(".localstack")))

for name, value in {
    "GATEWAY_LISTEN": "127.0.0.1:4566",
    "LOCALSTACK_HOST": "localhost:4566",  # the host in the URLs that LocalStack hands out
    "SQS_ENDPOINT_STRATEGY": "path",
    "OVERRIDE_IN_DOCKER": "0",  # else a /.dockerenv file moves its folders to /var/lib
    "DNS_ADDRESS": "0",
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "DISABLE_EVENTS": "1",
    "EAGER_SERVICE_LOADING": "0",
    "PROVIDER_OVERRIDE_DYNAMODB": "v2",
    "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "v2",
    "DYNAMODB_IN_MEMORY": "1",
    "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": "0.1",
    "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "1",
}.items():
    os.environ.setdefault(name, value)

# LocalStack reads its configuration when it is imported, hence only now.
from localstack.services.dynamodb.server import DynamodbServer  # noqa: E402
from localstack.services.lambda_.event_source_mapping.pollers.sqs_poller import SqsPoller  # noqa: E402
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException  # noqa: E402
from localstack.services.lambda_.invocation.lambda_models import InvocationResult  # noqa: E402
from localstack.services.lambda_.invocation.plugins import DockerRuntimeExecutorPlugin  # noqa: E402
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor  # noqa: E402

LOGS = ROOT / "lambda-logs"
INIT_SECONDS = 10


class Crash(Exception):
    """The function's process ended while someone waited for it."""


class Runtime:
    """One process of a function and the Runtime API it polls."""

    def __init__(self, code: pathlib.Path, env: dict[str, str], log):
        self.events = queue.SimpleQueue()
        self.crash: Crash | None = None
        self.request_id, self.answer, self.idle = "", Future(), Future()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RuntimeAPI)
        self.server.runtime = self
        try:
            self.process = subprocess.Popen(
                [str(code / "bootstrap")],
                cwd=code,
                env={**env, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.server.server_port}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            self.server.server_close()
            raise
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        code = self.process.wait()
        reason = signal.Signals(-code).name if code < 0 else code
        self.crash = Crash(f"Runtime exited with error: {'signal' if code < 0 else 'exit status'} {reason}")
        self.events.put(None)  # releases the request for an event that the process left behind
        settle(self.idle, error=self.crash)
        settle(self.answer, error=self.crash)
        self.server.shutdown()
        self.server.server_close()

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def invoke(self, payload: dict[str, str], seconds: float):
        """Hands an event to an idle process and returns (failed, answer)."""
        self.request_id, self.answer, self.idle = payload["invoke-id"], Future(), Future()
        if self.crash:
            raise self.crash
        headers = {
            "Lambda-Runtime-Aws-Request-Id": payload["invoke-id"],
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + seconds) * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": payload["invoked-function-arn"],
            "Lambda-Runtime-Trace-Id": payload["trace-id"],
        }
        self.events.put((headers, payload["payload"].encode()))
        return self.answer.result(seconds)


def settle(future: Future, value=None, error: Exception | None = None):
    """Settles a future once; later attempts are dropped."""
    with contextlib.suppress(InvalidStateError):
        if error:
            future.set_exception(error)
        else:
            future.set_result(value)


class RuntimeAPI(http.server.BaseHTTPRequestHandler):
    """https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html"""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version, sys_version = "runtime", ""

    def do_GET(self):
        runtime = self.server.runtime
        if not self.path.endswith("/invocation/next"):
            return self.reply(404)
        settle(runtime.idle)
        item = runtime.events.get()
        if item is None:
            self.close_connection = True
            return
        headers, event = item
        self.reply(200, headers, event)

    def do_POST(self):
        runtime = self.server.runtime
        body, trailers = self.read_body()
        *_, request_id, action = self.path.split("/")
        if self.path.endswith("/init/error"):
            settle(runtime.idle, error=StatusErrorException("init error", payload=body))
        elif request_id == runtime.request_id and action in ("response", "error"):
            failed = action == "error" or "Lambda-Runtime-Function-Error-Type" in trailers
            settle(runtime.answer, (failed, body))
        else:
            return self.reply(400, body=b'{"errorType":"InvalidRequestID"}')
        self.reply(202, body=b'{"status":"OK"}')

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0))), {}
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body, http.client.parse_headers(self.rfile)

    def reply(self, status: int, headers=(), body: bytes = b""):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class ProcessExecutor(RuntimeExecutor):
    """One execution environment: a process, replaced when it dies or runs out of time."""

    runtime: Runtime | None = None

    def start(self, env_vars):
        config = self.function_version.config
        code = config.code.get_unzipped_code_location()
        self.env = {"PATH": os.defpath, "HOME": "/tmp", "TMPDIR": "/tmp"}
        self.env |= {name: str(value) for name, value in env_vars.items()}
        self.env["LAMBDA_TASK_ROOT"] = str(code)
        folder = LOGS / self.function_version.id.function_name
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / f"{self.id}.log"
        self.log = self.log_path.open("ab", buffering=0)
        self.code, self.stopped, self.lock = code, False, threading.Lock()
        self.spawn()

    def spawn(self):
        """Starts the process and waits until it asks for its first event."""
        with self.lock:
            if self.stopped:
                raise Crash("stopped")
            try:
                self.runtime = Runtime(self.code, self.env, self.log)
            except OSError as error:
                raise failure("Runtime.InvalidEntrypoint", f"Error: {error}") from error
        try:
            self.runtime.idle.result(INIT_SECONDS)
        except Crash as crash:
            raise failure("Runtime.ExitError", f"Error: {crash}") from crash
        except (TimeoutError, StatusErrorException):
            self.runtime.kill()
            raise

    def stop(self):
        with self.lock:
            self.stopped = True
            if self.runtime:
                self.runtime.kill()
        self.log.close()

    def invoke(self, payload):
        request_id, seconds = payload["invoke-id"], self.function_version.config.timeout
        prefix, began = f"RequestId: {request_id} Error: ", time.monotonic()
        with self.log_path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            try:
                try:
                    self.runtime.idle.result(seconds)
                except Crash:  # it ended after its last answer
                    self.spawn()
                failed, body = self.runtime.invoke(payload, seconds)
            except StatusErrorException as error:
                failed, body = True, error.payload
            except TimeoutError:
                self.runtime.kill()
                message = f"{prefix}Task timed out after {seconds:.2f} seconds"
                failed, body = True, failure("Sandbox.Timedout", message).payload
            except Crash as crash:
                failed, body = True, failure("Runtime.ExitError", f"{prefix}{crash}").payload
            # The file already holds all that the process wrote before it answered.
            output = log.read().decode(errors="replace")
        version, took = self.function_version.id.qualifier, (time.monotonic() - began) * 1000
        logs = f"START RequestId: {request_id} Version: {version}\n{output.rstrip()}\nEND RequestId: {request_id}\n"
        logs += f"REPORT RequestId: {request_id}\tDuration: {took:.2f} ms"
        return InvocationResult(request_id, body, is_error=failed, logs=logs)

    def get_logs(self):
        return self.log_path.read_text(errors="replace")

    def get_address(self):
        return "127.0.0.1"

    get_endpoint_from_executor = get_address

    def get_runtime_endpoint(self):
        return ""  # only LocalStack's own init binary wants it

    @classmethod
    def prepare_version(cls, function_version):
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        pass


def failure(kind: str, message: str) -> StatusErrorException:
    payload = json.dumps({"errorType": kind, "errorMessage": message})
    return StatusErrorException(message, payload=payload.encode())


def use_processes_for_lambda():
    DockerRuntimeExecutorPlugin.load = lambda *_: ProcessExecutor


def use_installed_dynamodb_local():
    """Puts DynamoDB Local and Java where LocalStack would have downloaded them to."""
    java = os.environ.get("JAVA_HOME") or os.path.realpath(shutil.which("java") or "").removesuffix("/bin/java")
    for target, source in {"dynamodb-local/2": os.environ["DYNAMODB_LOCAL_HOME"], "java/21": java}.items():
        link = ROOT / "var/lib/localstack/lib" / target
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.abspath(source), target_is_directory=True)
    command = DynamodbServer._create_shell_command
    # The agent lifts a limit on indexes and would have to be downloaded.
    DynamodbServer._create_shell_command = lambda self: [
        part for part in command(self) if not part.startswith("-javaagent:")
    ]


def keep_fifo_groups_apart():
    """Stops a failed group from taking along the groups received with it, unhandled, to the dead-letter queue."""
    handle = SqsPoller.handle_messages

    def handle_messages(self, messages):
        try:
            handle(self, messages)
        except Exception as error:  # the messages come back after the visibility timeout
            logging.getLogger("localstack.sqs_poller").warning("batch of %d failed: %r", len(messages), error)

    SqsPoller.handle_messages = handle_messages


def keep_bodies_as_they_are():
    """Gives functions the text that was sent: for its filters the poller reads JSON and writes it anew, with other white space."""
    handle, matching = SqsPoller.handle_messages, SqsPoller.filter_events

    def handle_messages(self, messages):
        self.texts = {message["MessageId"]: message["Body"] for message in messages}
        handle(self, messages)

    def filter_events(self, events):
        events = matching(self, events)
        for event in events:
            event["body"] = self.texts[event["messageId"]]
        return events

    SqsPoller.handle_messages, SqsPoller.filter_events = handle_messages, filter_events


if __name__ == "__main__":
    use_processes_for_lambda()
    use_installed_dynamodb_local()
    keep_fifo_groups_apart()
    keep_bodies_as_they_are()
    tempfile.tempdir = str(ROOT / "tmp")  # function code is unpacked there
    os.makedirs(tempfile.tempdir, exist_ok=True)
    from localstack.runtime.main import main

    sys.exit(main())

"""`mercato listen`: webhooks are verified, reported, forwarded unchanged, and answered."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.databases import mostly_sqlite
from tests.forks import inherited, program
from tests.partners.test_commands import Shell, shell
from tests.ports import free_port
from tests.servers import hang, reply, serve

from mercato_contract.clock import new_id
from mercato_contract.debugger.explain import Secret, SecretOrigin
from mercato_contract.signing import new_secret, webhook_headers
from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import Options
from mercato_tools.cli import listen as listening_module
from mercato_tools.cli import main as cli
from mercato_tools.cli import received
from mercato_tools.cli.listen import MAX_BODY, Listener, below, receiving
from mercato_tools.cli.received import ReceivedWebhook, WebhookDisplay, lines_of

__all__ = ["shell"]

SECRET = new_secret(b"\xfb".__mul__)
STRANGE = new_secret(b"\x07".__mul__)
BODY = b'{"type":"order.place","data":{}}'
TIMEOUT = 60


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def signed(body: bytes = BODY, *, secret: str = SECRET, webhook_id: str = "") -> dict[str, str]:
    return webhook_headers(
        webhook_id=webhook_id or str(new_id()),
        timestamp=int(time.time()),
        body=body,
        secrets=[secret],
        token="tk_secret",
        traceparent=None,
    )


class ListenerClient:
    """A listener, the webhooks it reported, and an HTTP client."""

    def __init__(self, base: str, received: list[ReceivedWebhook], client: aiohttp.ClientSession) -> None:
        self.base, self.received, self._client = base, received, client

    async def post(
        self, body: Any = BODY, *, path: str = "/hooks/place", method: str = "POST", headers: Any = None
    ) -> tuple[int, bytes, Any]:
        given = signed(body) if headers is None else headers
        async with self._client.request(method, self.base + path, data=body, headers=given) as answer:
            return answer.status, await answer.read(), answer.headers


@contextlib.asynccontextmanager
async def listener_client(
    secret: str | None = SECRET, *, answer: int = 200, forward: str | None = None
) -> AsyncIterator[ListenerClient]:
    received: list[ReceivedWebhook] = []
    async with (
        Outbound(Options(policy=AddressPolicy(allow_private=True))) as outbound,
        aiohttp.ClientSession() as client,
    ):
        here = Listener(
            secrets=[] if secret is None else [Secret(secret, SecretOrigin.GIVEN, 0)],
            answer=answer,
            report=received.append,
            forward=forward,
            outbound=outbound,
        )
        async with receiving(here, host="127.0.0.1", port=0) as base:
            yield ListenerClient(base, received, client)


async def test_a_valid_webhook_is_answered_2xx_and_an_invalid_one_401_with_the_explanation():
    async with listener_client() as here:
        assert (await here.post())[:2] == (200, b"{}")
        assert (await here.post(headers=signed(secret=STRANGE)))[0] == 401
        assert (await here.post(BODY.replace(b":", b": "), headers=signed()))[0] == 401
        good, strange, rewritten = here.received
    assert (good.type, good.explanation and good.explanation.valid, good.path) == (
        "order.place",
        True,
        "/hooks/place",
    )
    assert strange.explanation is not None
    assert strange.explanation.code == "WRONG_KEY"
    assert rewritten.explanation is not None
    assert rewritten.explanation.code == "BODY_RESERIALISED"
    lines = [line for one in here.received for line in lines_of(one)]
    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    assert "401 NO order.place" in text
    assert "[WRONG_KEY]" in text
    assert "-> Verify the bytes" in text
    assert SECRET not in text
    assert "tk_secret" not in text


async def test_the_status_can_be_chosen_and_without_a_secret_nothing_is_verified():
    async with listener_client(None, answer=503) as here:
        assert (await here.post(headers={}))[0] == 503
        assert here.received[0].explanation is None
        assert lines_of(here.received[0])[0].endswith("503 -- order.place")


async def test_a_repeat_is_reported_and_other_methods_and_long_bodies_are_refused():
    async with listener_client() as here:
        headers = signed(webhook_id="the-same")
        for _ in range(2):
            await here.post(headers=headers)
        assert [one.times for one in here.received] == [1, 2]
        assert "was received 2 times" in " ".join(lines_of(here.received[1]))
        status, text, answered = await here.post(b"", method="GET")
        assert (status, answered["Allow"], b"by POST" in text) == (405, "POST", True)
        assert (await here.post(io.BytesIO(b"x" * (MAX_BODY + 1)), headers=headers))[0] == 413
        assert len(here.received) == 3
        assert "longer than any webhook" in lines_of(here.received[2])[1]


async def test_the_memory_of_repeats_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listening_module, "MAX_REMEMBERED", 2)
    async with listener_client() as here:
        for name in ("a", "b", "c", "a", "c"):
            await here.post(headers=signed(webhook_id=name))
        assert [one.times for one in here.received] == [1, 1, 1, 1, 2]


async def test_a_webhook_is_forwarded_unchanged_and_the_answer_returned():
    answer = reply(402, b'{"errors": []}', content_type="application/problem+json", retry_after=7)
    async with serve(answer) as own, listener_client(forward=f"{own.url}/app/") as here:
        headers = signed() | {"X-Own": "kept"}
        status, body, answered = await here.post(path="/hooks/place?k=v", headers=headers)
        assert (status, body, answered["Retry-After"]) == (402, b'{"errors": []}', "7")
        assert answered["Content-Type"].startswith("application/problem+json")
        [request] = own.requests
        assert (request.path, request.body) == ("/app/hooks/place?k=v", BODY)
        for name, text in headers.items():
            assert request.headers[name.lower()] == text
        assert request.headers["host"].startswith("127.0.0.1")
        # An unsigned webhook is forwarded too: the program has to refuse it.
        await here.post(headers=signed(secret=STRANGE))
        assert len(own.requests) == 2
        assert here.received[1].explanation is not None
        assert not here.received[1].explanation.valid


async def test_a_program_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch):
    async with listener_client(forward=f"http://127.0.0.1:{free_port()}") as here:
        status, text, _ = await here.post()
        assert (status, b"Is your program running" in text) == (502, True)
        assert "Nothing answers" in " ".join(lines_of(here.received[0]))
    monkeypatch.setattr(received, "FORWARD_SECONDS", 0.05)
    async with serve(hang()) as own, listener_client(forward=own.url) as here:
        assert (await here.post())[0] == 502
        assert "no full answer" in " ".join(lines_of(here.received[0]))


async def test_nothing_is_forwarded_to_a_metadata_service():
    async with listener_client(forward="http://169.254.169.254") as here:
        assert (await here.post())[0] == 502


def test_paths_are_appended():
    assert below("http://h:1", "/a?b=1") == "http://h:1/a?b=1"
    assert below("http://h/x/?q=1", "/a?b=1") == "http://h/x/a?q=1&b=1"
    assert below("http://h/x", "/") == "http://h/x"
    assert below("http://h", "/") == "http://h/"


async def test_control_characters_in_names_are_not_printed(capsys: pytest.CaptureFixture[str]):
    body = json.dumps({"type": "\x1b[2J\u202e" + "x" * 200}).encode()
    async with listener_client() as here:
        await here.post(body)
    display = WebhookDisplay(as_json=False, bodies=True, limit=None)
    display.show(here.received[0])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert len(out.splitlines()[0]) <= 80


# --- the command ------------------------------------------------------------------------------------


def ready(stderr: Any) -> tuple[str, str]:
    """Return where it listens, and what it said before that."""
    noted = ""
    while (found := re.search(r"listening on (http://127.0.0.1:\d+)", noted)) is None:
        line = stderr.readline()
        assert line, noted
        noted += line
    return found[1], noted


class Process:
    """The real command, and where it listens."""

    def __init__(self, *arguments: str, stdout: Any = subprocess.PIPE) -> None:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("MERCATO_")}
        self.process = subprocess.Popen(
            [program(), "listen", "--port", "0", *arguments],
            stdout=stdout, stderr=subprocess.PIPE, text=True, **inherited(environment | {"COLUMNS": "80"}),
        )  # fmt: skip
        assert self.process.stderr is not None
        self.base, self.noted = ready(self.process.stderr)

    def post(self, headers: dict[str, str]) -> int:
        request = urllib.request.Request(self.base, BODY, headers)  # noqa: S310  # loopback
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code

    def interrupted(self) -> tuple[str, str]:
        # Once: a second Ctrl-C while it ends would kill it.
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=TIMEOUT)


@pytest.fixture
def running() -> Iterator[Any]:
    started: list[Process] = []

    def start(*arguments: str, **options: Any) -> Process:
        started.append(Process(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_a_line_each_in_a_pipe_and_a_summary_at_ctrl_c(running: Any):
    here = running("--json", "--secret", SECRET)
    assert here.post(signed()) == 200
    first = json.loads(here.process.stdout.readline())
    assert (first["valid"], first["type"], first["status"], first["body"]) == (
        True,
        "order.place",
        200,
        BODY.decode(),
    )
    assert here.post(signed(secret=STRANGE)) == 401
    out, err = here.interrupted()
    assert json.loads(out)["code"] == "WRONG_KEY"
    assert "2 received: 1 valid, 1 not valid; answered 200 1, 401 1; why not: WRONG_KEY 1." in " ".join(
        err.split()
    )
    assert here.process.returncode == 1
    assert "Traceback" not in err


def test_it_exits_with_0_after_a_number_of_valid_webhooks(running: Any, tmp_path: Path):
    (tmp_path / "s").write_text(SECRET)
    here = running("--secret", f"@{tmp_path / 's'}", "--count", "1", "--body")
    assert here.post(signed()) == 200
    out, err = here.process.communicate(timeout=TIMEOUT)
    assert (here.process.returncode, "1 received: 1 valid" in err) == (0, True)
    assert '  "type": "order.place",' in out


def test_a_closed_pipe_ends_it_quietly(running: Any):
    read, write = os.pipe()
    here = running(stdout=write)
    os.close(write)
    os.close(read)
    here.post(signed())
    _, err = here.process.communicate(timeout=TIMEOUT)
    assert (here.process.returncode, "Traceback" in err) == (1, False)


def test_ctrl_c_before_any_webhook_is_not_a_failure(running: Any):
    here = running()
    _, err = here.interrupted()
    assert (here.process.returncode, "0 received." in err, "Nothing is verified" in here.noted) == (
        0,
        True,
        True,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        ["--port", "65536"],
        ["--port", "many"],
        ["--answer", "99"],
        ["--answer", "200", "--forward", "http://127.0.0.1:1"],
        ["--forward", "ftp://x"],
        ["--forward", "nowhere"],
        ["--forward", "http://169.254.169.254/"],
        ["--secret", "mk_commerce_x"],
        ["--secret", "foo"],
        ["--secret", SECRET, "--secret", "AAAA"],
        ["--secret", "@none"],
        ["--secret", SECRET, "--partner", "Acme"],
        ["--count", "0"],
        ["--host", "no such host"],
        ["--bogus"],
    ],
    ids=lambda value: "-".join(value).replace(SECRET, "secret"),
)
def test_wrong_arguments_exit_with_2_and_the_reason(wrong: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.run(["listen", "--port", "0", *wrong]) == 2
    err = capsys.readouterr().err
    assert (bool(err.strip()), "received" in err) == (True, False)


async def test_a_port_in_use_is_reported(capsys: pytest.CaptureFixture[str]):
    async with serve(reply(200)) as taken:
        codes: list[int] = []
        thread = threading.Thread(
            target=lambda: codes.append(
                subprocess.run(
                    [program(), "listen", "--port", str(taken.port)],
                    capture_output=True,
                    check=False,
                    **inherited(),
                ).returncode
            )
        )
        thread.start()
        thread.join(TIMEOUT)
        assert codes == [2]


@mostly_sqlite
def test_a_partners_own_secrets_verify(shell: Shell, capsys: pytest.CaptureFixture[str], running: Any):
    made = shell.json("partner", "create", "Acme", "--kind", "commerce")
    shell("listen", "--partner", "Nobody", "--port", "0", code=1)
    assert "mercato partner list" in shell.err
    environment = {"MERCATO_DATABASE_URL": os.environ["MERCATO_DATABASE_URL"]}
    process = subprocess.Popen(
        [program(), "listen", "--port", "0", "--count", "1", "--partner", "Acme", "--data-dir", shell.data_dir],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **inherited(os.environ | environment),
    )  # fmt: skip
    assert process.stderr is not None
    base, _ = ready(process.stderr)
    request = urllib.request.Request(base, BODY, signed(secret=made["signingSecret"]))  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
        assert answer.status == 200
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0

"""`mercato webhooks explain`, on pasted HTTP or on files, with and without the service's database."""

import asyncio
import io
import json
import os
import sys
import time
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mercato.features.compression import compress
from mercato.features.partners import accounts
from mercato.features.partners.model import PartnerKind, Surface
from mercato.features.partners.vault import Vault, load_keys
from mercato.features.schema import SCHEMA
from mercato.features.webhooks import attempts
from mercato.platform.db.engine import Database
from mercato.platform.db.migrate import migrate
from mercato_contract.clock import new_id, now
from mercato_contract.signing import new_secret, webhook_headers
from mercato_tools.cli import main as cli

SECRET = new_secret(b"\xfb".__mul__)
STRANGE = new_secret(b"\x07".__mul__)
BODY = b'{"type":"order.created","data":{}}'
ID = new_id()


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MERCATO_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


def head(secret: str = SECRET, *, webhook_id: UUID = ID, body: bytes = BODY, newline: str = "\r\n") -> bytes:
    made = webhook_headers(
        webhook_id=str(webhook_id),
        timestamp=int(time.time()),
        body=body,
        secrets=[secret],
        token="tk_secret",
        traceparent=None,
    )
    return "".join(f"{name}: {value}{newline}" for name, value in made.items()).encode()


Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    def asking(typed: bytes, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        code = cli.run(["webhooks", "explain", *arguments])
        out, err = capsys.readouterr()
        assert code == 2 or err == ""
        assert SECRET[6:20] not in out + err
        assert "tk_secret" not in out + err
        return code, out

    return asking


@pytest.mark.parametrize(
    "start", [b"", b"POST /hooks HTTP/1.1\r\n", b"\n\n"], ids=["bare", "request", "blank"]
)
@pytest.mark.parametrize("newline", ["\r\n", "\n"], ids=["crlf", "lf"])
def test_pasted_http_is_read_from_standard_input(ask: Ask, start: bytes, newline: str):
    pasted = start + head(newline=newline) + newline.encode() + BODY
    for named in ((), ("-",)):
        code, out = ask(pasted, *named, "--secret", SECRET)
        assert (code, out.split("\n")[0]) == (0, "VALID")


@pytest.mark.parametrize("secret", [SECRET, STRANGE], ids=["new", "old"])
def test_a_header_that_python_has_printed_in_several_lines_is_read_whole(ask: Ask, secret: str):
    """As while a secret is rotated: two signatures are longer than `http.server` and `email` print in one line."""
    headers = Message()
    made = webhook_headers(
        webhook_id=str(ID), timestamp=int(time.time()), body=BODY, secrets=[SECRET, STRANGE],
        token=None, traceparent=None,
    )  # fmt: skip
    for name, value in made.items():
        headers[name] = value
    pasted = bytes(headers) + BODY
    assert b"\n v1," in pasted
    code, out = ask(pasted, "--secret", secret)
    assert (code, out.split("\n")[0]) == (0, "VALID"), out


def test_text_after_the_declared_length_is_removed(ask: Ask):
    declared = f"Content-Length: {len(BODY)}\r\n\r\n".encode()
    assert ask(head() + declared + BODY + b"\n\n", "--secret", SECRET)[0] == 0
    code, out = ask(head() + b"\r\n" + BODY + b"\n", "--secret", SECRET)
    assert (code, "does not end in a line break" in " ".join(out.split())) == (1, True)


def test_files_are_read_and_json_is_printed(ask: Ask, tmp_path: Path):
    (tmp_path / "h").write_bytes(head())
    (tmp_path / "b").write_bytes(BODY.replace(b":", b": "))
    (tmp_path / "s").write_text(SECRET + "\n")
    (tmp_path / "whole").write_bytes(head() + b"\r\n" + BODY)
    files = ("--headers", str(tmp_path / "h"), "--body", str(tmp_path / "b"))
    code, out = ask(b"", *files, "--secret", f"@{tmp_path / 's'}", "--json")
    output = json.loads(out)
    assert (code, output["valid"], output["code"], output["difference"]["offset"]) == (
        1,
        False,
        "BODY_RESERIALISED",
        8,
    )
    assert ask(SECRET.encode() + b"\n", str(tmp_path / "whole"), "--secret", "@-")[0] == 0
    code, out = ask(b"", str(tmp_path / "whole"), "--secret", SECRET, "--received", "2026-01-31T18:30:00Z")
    assert (code, "CLOCK_SKEW" in out) == (1, True)


def test_the_output_for_people_fits_into_80_columns(ask: Ask):
    code, out = ask(head() + b"\r\n" + b'{"type": "order.created", "data": {}}', "--secret", SECRET)
    assert (code, out.split("\n")[0]) == (1, "NOT VALID: BODY_RESERIALISED")
    assert "from byte 8 on" in out
    code, output = ask(head() + b"\r\n" + BODY, "--secret", STRANGE, "--computed", "AAAA")
    assert (code, "[WRONG_KEY]" in output) == (1, True)
    assert all(len(line) <= 80 for line in (out + output).splitlines())
    assert "\x1b" not in out + output


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        (b"", ["--secret", SECRET]),
        (b"no message", ["--secret", SECRET]),
        (b"no headers\n\n{}", ["--secret", SECRET]),
        (b"a: b\n\n{}", []),
        (b"a: b\n\n{}", ["--secret", SECRET, "--received", "yesterday"]),
        (b"a: b\n\n{}", ["--secret", SECRET] * 6),
        (b"a: b\n\n" + b"x" * (128 * 1024 + 1), ["--secret", SECRET]),
        (b"", ["none.http", "--secret", SECRET]),
        (b"", ["--secret", "@none.txt"]),
        (b"", ["--secret", SECRET, "--headers", "none"]),
        (b"", ["--secret", SECRET, "--body", "none"]),
        (b"", ["--secret", SECRET, "--headers", "-", "--body", "-"]),
        (b"", ["--bogus"]),
    ],
    ids=lambda value: None if isinstance(value, bytes) else "-".join(value)[-20:].replace(SECRET[-6:], "s"),
)
def test_unusable_input_exits_with_2(ask: Ask, typed: bytes, arguments: list[str]):
    assert ask(typed, *arguments)[0] == 2


async def _partner_with_a_delivery(data_dir: Path) -> tuple[str, UUID]:
    """Make a partner that was sent BODY; return its secret and the webhook-id."""
    url = f"sqlite:///{data_dir / 'mercato.db'}"
    await migrate(url, SCHEMA)
    vault = Vault(load_keys(None, data_dir))
    webhook_id = new_id()
    async with Database.open(url) as db, db.write() as tx:
        made = await accounts.create_partner(tx, vault, name="Acme", kind=PartnerKind.COMMERCE)
        columns: dict[str, Any] = {
            "id": new_id(), "partner_id": made.id, "surface": Surface.COMMERCE, "type": "order.created",
            "webhook_id": webhook_id, "url": "https://pos.example/hooks", "body": compress(BODY), "traceparent": "",
            "partition": 0, "status": "succeeded", "created_at": now(), "updated_at": now(),
        }  # fmt: skip
        attempts.insert_delivery(tx, attempts.NewDelivery(**columns))
    return made.signing_secret, webhook_id


def test_with_a_partner_its_secrets_are_tried_and_its_deliveries_compared(ask: Ask, tmp_path: Path):
    secret, webhook_id = asyncio.run(_partner_with_a_delivery(tmp_path))
    here = ("--partner", "Acme", "--data-dir", str(tmp_path))
    lines = head(secret, webhook_id=webhook_id) + b"\r\n"
    assert ask(lines + BODY, *here)[0] == 0
    code, out = ask(lines + BODY.replace(b"{}", b"[]"), *here, "--json")
    output = json.loads(out)
    assert (code, output["code"], output["signedWith"]) == (1, "BODY_CHANGED", "current")
    code, out = ask(lines + BODY, *here, "--secret", STRANGE, "--json")
    assert (code, json.loads(out)["code"], json.loads(out)["signedWith"]) == (1, "WRONG_KEY", "current")
    assert ask(lines + BODY, "--partner", "Nobody", "--data-dir", str(tmp_path))[0] == 2
    assert ask(lines + BODY, "--partner", "Acme", "--data-dir", str(tmp_path / "none"))[0] == 2

"""`mercato webhooks explain`: why a webhook's signature fails, given its HTTP message or files."""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from mercato_contract import clock
from mercato_contract.debugger.explain import (
    Secret,
    SecretOrigin,
    SentDelivery,
    SignatureExplanation,
    Webhook,
)
from mercato_contract.debugger.explain import explain as explain_signature
from mercato_contract.debugger.findings import ERROR
from mercato_contract.webhooks import MAX_BODY, MAX_HEADERS
from mercato_contract.wire import parse_instant
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.extensions import get_service
from mercato_tools.cli.failures import explain as failure_of
from mercato_tools.cli.inputs import STANDARD_INPUT, read_file, read_secrets
from mercato_tools.cli.options import DataDir, Json, Secrets, group
from mercato_tools.cli.output import finding, print_json, say, wrap

_MAX_HEAD: Final = 64 * 1024
_START: Final = re.compile(rb"(?:[A-Z]{3,10} \S+ HTTP/\d(?:\.\d)?|HTTP/\d(?:\.\d)? \d{3}.*)\r?\n")
_HEADER: Final = re.compile(r"[<>*\s]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*[:=]\s?(.*)")
_EMPTY_LINE: Final = re.compile(rb"\r?\n\r?\n")

webhooks = group("webhooks", "Webhooks: explain a signature.")


@webhooks.command
def explain(
    message: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    secret: Secrets = None,
    partner: str | None = None,
    headers: str | None = None,
    body: str | None = None,
    computed: str | None = None,
    received: str | None = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Explain why a webhook's signature fails: key, body, headers or clock. No server is needed.

    Exit code 0: the signature is valid; 1: it isn't; 2: the webhook can't be read.

    Args:
        message: A file with the webhook as HTTP: headers, an empty line, body; - or nothing: standard input.
        partner: Verify with this partner's own secrets.
        headers: A file with only the headers.
        body: A file with only the body; - is standard input.
        computed: The signature that your own code computed.
        received: When it was received, such as 2026-01-31T18:30:00Z (now).

    """
    given = [Secret(text, SecretOrigin.GIVEN, index) for index, text in enumerate(read_secrets(secret))]
    received_at = None if received is None else parse_instant(received)
    if received is not None and received_at is None:
        raise UnusableError("--received must be an instant with an offset, such as 2026-01-31T18:30:00Z.")
    if not given and partner is None:
        raise UnusableError(
            "Give the signing secret with --secret, or name a partner of this service with --partner."
        )
    webhook = _read_webhook(message, headers=headers, body=body, computed=computed, received_at=received_at)
    own, copies = ([], []) if partner is None else _look_up(partner, webhook, data_dir)
    explanation = explain_signature(
        webhook, secrets=given or own, others=own if given else (), sent=copies, now=clock.now()
    )
    if json:
        print_json(explanation)
    else:
        _print(explanation)
    return 0 if explanation.valid else FAILED


def _look_up(
    partner: str, webhook: Webhook, data_dir: Path | None
) -> tuple[list[Secret], list[SentDelivery]]:
    """Return what the database knows of the partner. Raises UnusableError: exit code 1 is for signatures alone."""
    try:
        return get_service("--partner", "Give the signing secret with --secret.").look_up(
            partner, webhook, data_dir
        )
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        raise UnusableError(failure.message) from None


def _print(explanation: SignatureExplanation) -> None:
    say("VALID" if explanation.valid else f"NOT VALID: {explanation.code}", "")
    if explanation.valid:
        say(*wrap(explanation.message))
    for fault in explanation.findings:
        mark = "error" if fault.level == ERROR else "note"
        say(*finding(fault.message, fault.advice, first=f"{mark} [{fault.code}] ", indent="  "))
    if explanation.difference is not None:
        found = explanation.difference
        say(
            "",
            f"The bodies differ from byte {found.offset} on (line {found.line}, column {found.column}):",
            f"  signed    {found.signed_bytes:>7} bytes: {found.signed}",
            f"  received  {found.received_bytes:>7} bytes: {found.received}",
        )


def _read_webhook(
    message: str | None,
    *,
    headers: str | None,
    body: str | None,
    computed: str | None,
    received_at: datetime | None,
) -> Webhook:
    """Return the webhook. Raises UnusableError if it can't be read."""
    if headers is None:
        if body is not None:
            raise UnusableError("Give --headers with --body, or the whole message in one file.")
        head, content = _split(read_file(message or STANDARD_INPUT, max_bytes=_MAX_HEAD + MAX_BODY + 1))
    else:
        if body is None or message is not None:
            raise UnusableError("With --headers give the body by --body, and nothing else.")
        if headers == body == STANDARD_INPUT:
            raise UnusableError("Standard input holds either the headers or the body.")
        head, content = read_file(headers, max_bytes=_MAX_HEAD + 1), read_file(body, max_bytes=MAX_BODY + 1)
    if len(head) > _MAX_HEAD or len(content) > MAX_BODY:
        raise UnusableError(
            f"A webhook has at most {MAX_BODY:,} bytes of body, and {_MAX_HEAD:,} of headers."
        )
    return Webhook(headers=_headers(head), body=content, computed=computed, received_at=received_at)


def _split(whole: bytes) -> tuple[bytes, bytes]:
    """Return head and body of a message, without blank text that pasting added after the declared length."""
    whole = whole.lstrip(b"\r\n")
    match = _EMPTY_LINE.search(whole)
    if match is None:
        raise UnusableError(
            "This isn't an HTTP message: headers, an empty line, and the body. Or give --headers and --body."
        )
    head, body = whole[: match.start()], whole[match.end() :]
    declared = re.search(rb"(?im)^content-length:[ \t]*(\d{1,9})[ \t\r]*$", head)
    if declared is not None and not body[int(declared[1]) :].strip():
        body = body[: int(declared[1])]
    return head, body


def _headers(head: bytes) -> dict[str, str]:
    """Return the headers of lines like `name: value`; other lines are skipped.

    A long value may go on in an indented line, as Python's `email` and `http.server` print it: RFC 9112, 5.2.
    """
    start = _START.match(head)
    lines = head[start.end() if start is not None else 0 :].decode("utf-8", "replace").splitlines()
    found: dict[str, str] = {}
    last: str | None = None
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is not None:
            last = match[1] if len(found) < MAX_HEADERS else None
            if last is not None:
                found[last] = match[2].strip()
        elif last is not None and line.startswith((" ", "\t")):
            found[last] = f"{found[last]} {line.strip()}"
    if not found:
        raise UnusableError("There are no headers: lines like webhook-id: 01963f5e-…")
    return found

"""Reads a command's input within bounds: a file, standard input or a URL."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from msgspec import Struct

from mercato_catalog.validation.findings import Rule
from mercato_contract.decoding.checks import uri_fault
from mercato_contract.signing import signing_key
from mercato_contract.webhooks import MAX_SECRETS
from mercato_tools.cli import UnusableError
from mercato_tools.settings import IngestSettings, load

STANDARD_INPUT: Final = "-"
_CHUNK: Final = 1 << 20


class RefusedError(Exception):
    """An ingest would refuse the document before it reads it; the message says why."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class Document(Struct, frozen=True):
    """A document and its name. `uri` is its name for programs."""

    name: str
    uri: str
    body: bytes


def settings() -> IngestSettings:
    """Return the settings of the environment that catalogs are read by. Raises SettingsError."""
    return load(IngestSettings, os.environ)


def read_document(name: str, bounds: IngestSettings) -> Document:
    """Return the document. Raises UnusableError if it can't be read, RefusedError if an ingest would refuse it."""
    if name.lower().startswith(("http://", "https://")):
        return Document(name, name, _pulled(name, bounds))
    if name.startswith("-") and name != STANDARD_INPUT:
        raise UnusableError(f"There is no option {name}. For a file of that name write ./{name}")
    body = read_file(name, max_bytes=bounds.pull_decoded_bytes + 1)
    if len(body) > bounds.pull_decoded_bytes:
        limit = f"{bounds.pull_decoded_bytes:,}"
        raise RefusedError(
            Rule.TOO_LARGE, f"The document has more than {limit} bytes, more than an ingest takes."
        )
    if name == STANDARD_INPUT:
        return Document("standard input", "stdin", body)
    path = Path(name)
    if path.is_absolute():
        return Document(name, path.as_uri(), body)
    return Document(name, quote(path.as_posix().encode("utf-8", "surrogateescape")), body)


def read_valid_document(name: str, bounds: IngestSettings) -> Document:
    """Return the document. Raises UnusableError if an ingest couldn't read it."""
    try:
        return read_document(name, bounds)
    except RefusedError as error:
        raise UnusableError(str(error)) from None


def read_file(name: str, *, max_bytes: int) -> bytes:
    """Return at most `max_bytes` bytes of a file or of standard input. Raises UnusableError."""
    try:
        if name == STANDARD_INPUT:
            if sys.stdin.isatty():
                print("Paste it here, and end with Ctrl-D.", file=sys.stderr)
            return _read(sys.stdin.buffer, max_bytes)
        with Path(name).open("rb") as file:
            return _read(file, max_bytes)
    except FileNotFoundError:
        raise UnusableError(f"There is no file {name}.") from None
    except IsADirectoryError:
        raise UnusableError(f"{name} is a directory. Name a file in it.") from None
    except (OSError, ValueError) as error:
        raise UnusableError(f"{name} cannot be read: {why_not(error)}.") from None


def read_secret(text: str) -> str:
    """Return a secret as typed, or the first line of `@FILE` or, with `@-`, of standard input."""
    if not text.startswith("@"):
        return text
    if text == "@-":
        return sys.stdin.readline().strip()
    return (read_file(text[1:], max_bytes=4096).decode("utf-8", "replace").splitlines() or [""])[0].strip()


def read_secrets(texts: Sequence[str] | None) -> list[str]:
    """Return the secrets. Raises UnusableError for too many."""
    if len(texts or ()) > MAX_SECRETS:
        raise UnusableError(f"At most {MAX_SECRETS} secrets are tried.")
    return [read_secret(text) for text in texts or ()]


def check_secrets(secrets: Sequence[str]) -> None:
    """Raise UnusableError if one can't be a signing secret."""
    try:
        for secret in secrets:
            signing_key(secret)
    except ValueError as fault:
        raise UnusableError(f"--secret: {fault}") from None


def why_not(error: OSError | ValueError) -> str:
    """Return why a file can't be read or written. A ValueError means that its name isn't valid."""
    return (isinstance(error, OSError) and error.strerror) or "its name isn't valid"


def _read(file: BinaryIO, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    while max_bytes > 0 and (part := file.read(min(max_bytes, _CHUNK))):
        parts.append(part)
        max_bytes -= len(part)
    return b"".join(parts)


def _pulled(url: str, bounds: IngestSettings) -> bytes:
    fault = uri_fault(url, "The URL")
    if fault is not None:
        raise UnusableError(fault)
    # A file needs no event loop and no client.
    import asyncio

    from mercato_outbound.client import Outbound
    from mercato_outbound.guard import AddressPolicy
    from mercato_outbound.results import NotModified, Options, RequestFailed

    async def pull() -> bytes:
        policy = AddressPolicy(allow_private=bounds.allow_private_networks)
        async with Outbound(Options(policy=policy)) as outbound:
            pulled = await outbound.pull(url, limits=bounds.pull_limits, etag=None)
        assert not isinstance(pulled, NotModified)
        return pulled.body

    try:
        return asyncio.run(pull())
    except RequestFailed as failure:
        raise RefusedError(Rule.NOT_FETCHED, failure.message) from None

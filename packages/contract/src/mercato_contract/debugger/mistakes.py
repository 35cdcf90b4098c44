"""Finds the mistake that makes a signature: each common one is tried, then those of key and content together. Pure.

The work is bounded: a few secrets, a few dozen bodies, and the common mistakes in id and timestamp.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mercato_contract.debugger.bodies import SHORT, candidate_bodies
from mercato_contract.debugger.findings import Code, Finding, finding, texts
from mercato_contract.debugger.headers import Given
from mercato_contract.signing import PREFIX
from mercato_contract.wire import redacted


class SecretOrigin(Enum):
    """Where a secret comes from: the caller gave it, or it is the account's current or previous one."""

    GIVEN = "given"
    CURRENT = "current"
    PREVIOUS = "previous"


@redacted("text")
class Secret(Struct, frozen=True):
    """A signing secret. `index` is its number among those of its origin, from 0, newest first."""

    text: str
    origin: SecretOrigin
    index: int = 0


@redacted("key")
class Key(Struct, frozen=True):
    """A key that a receiver may have made of a secret. Without a `mistake` it is the right one."""

    secret: Secret
    key: bytes
    mistake: str | None = None
    code: Code = Code.KEY_NOT_DECODED


@redacted("body")
class Message(Struct, frozen=True):
    """The signed content. Without a `mistake` it is the right one."""

    id: bytes
    timestamp: bytes
    body: bytes
    layout: str = "{id}.{timestamp}.{body}"
    mistake: str | None = None
    code: Code = Code.WRONG_CONTENT

    def signed(self) -> bytes:
        parts = {"{id}": self.id, "{timestamp}": self.timestamp, "{body}": self.body}
        out, rest = b"", self.layout
        while rest:
            name = next((part for part in parts if rest.startswith(part)), None)
            out += rest[0].encode() if name is None else parts[name]
            rest = rest[1 if name is None else len(name) :]
        return out


class Match(Struct, frozen=True):
    """A key and content that produce the signature."""

    key: Key
    message: Message
    given: Given


def usable_key(text: str) -> bytes | None:
    """Return the key of a secret, None if it isn't one. The prefix and the padding may be missing."""
    encoded = text.removeprefix(PREFIX)
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def check_secret(secret: Secret) -> Finding | None:
    """Return the finding if the text isn't a signing secret as it was shown."""
    text = secret.text
    if usable_key(text) is not None:
        name = None if text.startswith(PREFIX) else "secret-without-prefix"
    elif text.startswith(("whpk_", "whsk_")):
        name = "secret-asymmetric"
    elif text.startswith(("mk_", "mt_")):
        name = "secret-api-key"
    elif text != text.strip() or text.strip("\"'") != text:
        name = "secret-quoted"
    else:
        name = "secret-unusable"
    return None if name is None else finding(name, number=secret.index + 1)


def check_signer(signer: Secret, tried: Sequence[Secret]) -> Finding | None:
    """Return the finding if it isn't the first secret that signed."""
    if signer not in tried:
        return finding("previous-secret" if signer.origin is SecretOrigin.PREVIOUS else "other-secret")
    is_first = signer.index == 0 and signer.origin is not SecretOrigin.PREVIOUS
    return None if is_first else finding("older-secret")


def find_right(secrets: Iterable[Secret], message: Message, given: Sequence[Given]) -> Match | None:
    """Return the match without a mistake in key or content, preferably one whose signature is written correctly."""
    matches = list(_matches(_right_keys(secrets), [message], given))
    return min(matches, key=lambda match: match.given.flaw is not None, default=None)


def find_wrong(
    secrets: Sequence[Secret],
    message: Message,
    given: Sequence[Given],
    *,
    ids: Iterable[str],
    times: Iterable[int],
    sent: bytes | None,
) -> Match | None:
    """Return the match with the fewest common mistakes, None if there is none.

    `ids` and `times` may have been in the headers; `sent` is the body that was sent, if known.
    """
    right, wrong = list(_right_keys(secrets)), list(_wrong_keys(secrets))
    layouts = list(_layouts(message))
    bodies = list(_bodies(message, sent))
    other_headers = list(_other_headers(message, ids, times))
    for keys, messages in (
        (right, bodies),
        (wrong, [message]),
        (right, other_headers),
        (right, layouts),
        (wrong, layouts if len(message.body) <= SHORT else []),
        (
            right,
            [replace(other, body=sent) for other in other_headers] if sent is not None else [],
        ),
    ):
        found = next(_matches(keys, messages, given), None)
        if found is not None:
            return found
    return None


def _matches(keys: Iterable[Key], messages: Iterable[Message], given: Sequence[Given]) -> Iterator[Match]:
    keys = list(keys)
    for message in messages:
        signed = message.signed()
        for key in keys:
            digest = hmac.digest(key.key, signed, "sha256")
            for each in given:
                if hmac.compare_digest(each.digest, digest):
                    yield Match(key, message, each)


def _right_keys(secrets: Iterable[Secret]) -> Iterator[Key]:
    for secret in secrets:
        key = usable_key(secret.text)
        if key is not None:
            yield Key(secret, key)


def _wrong_keys(secrets: Iterable[Secret]) -> Iterator[Key]:
    for secret in secrets:
        right = usable_key(secret.text)
        for make, mistake, code in _KEYS:
            try:
                key = make(secret.text)
            except (binascii.Error, ValueError):
                continue
            if key and key != right:
                yield Key(secret, key, mistake, code)


_KEYS: Final[tuple[tuple[Callable[[str], bytes], str, Code], ...]] = (
    (
        lambda text: text.encode(),
        "the text of the secret was used as the key, with its prefix whsec_ and not decoded",
        Code.WRONG_PREFIX,
    ),
    (
        lambda text: base64.b64decode(text + "=" * (-len(text) % 4)),
        "the secret was decoded together with its prefix whsec_",
        Code.WRONG_PREFIX,
    ),
    (
        lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)),
        "the secret was decoded together with its prefix whsec_",
        Code.WRONG_PREFIX,
    ),
    (
        lambda text: text.removeprefix(PREFIX).encode(),
        "what follows whsec_ was used as the key without decoding it from base64",
        Code.KEY_NOT_DECODED,
    ),
    (
        lambda text: (PREFIX + text.removeprefix(PREFIX)).encode(),
        "whsec_ was put before the secret, and that text used as the key",
        Code.WRONG_PREFIX,
    ),
    (
        lambda text: (usable_key(text) or b"").hex().encode(),
        "the hexadecimal digits of the key were used as the key",
        Code.KEY_NOT_DECODED,
    ),
    (
        lambda text: usable_key("".join(text.split()).strip("\"'")) or b"",
        "there are spaces or quotes around or in the secret",
        Code.KEY_UNUSABLE,
    ),
    (
        lambda text: text.rstrip("\r\n").encode() + b"\n",
        "the text of the secret was used as the key, with its prefix and the line break of its file",
        Code.WRONG_PREFIX,
    ),
)


def _layouts(message: Message) -> Iterator[Message]:
    for layout, mistake in texts()["layouts"].items():
        yield replace(message, layout=layout, mistake=mistake)


def _bodies(message: Message, sent: bytes | None) -> Iterator[Message]:
    if sent is not None and sent != message.body:
        yield replace(message, body=sent, mistake="the body was changed", code=Code.BODY_CHANGED)
    for mistake, body in candidate_bodies(message.body):
        yield replace(message, body=body, mistake=mistake, code=Code.BODY_RESERIALISED)


def _other_headers(message: Message, ids: Iterable[str], times: Iterable[int]) -> Iterator[Message]:
    mistake = "webhook-id is not the id that was signed"
    for id_ in dict.fromkeys(text.encode("utf-8", "replace") for text in ids):
        if id_ != message.id:
            yield replace(message, id=id_, mistake=mistake, code=Code.ID_CHANGED)
    mistake = "webhook-timestamp is not the time that was signed"
    for stamp in dict.fromkeys(str(seconds).encode() for seconds in times):
        if stamp != message.timestamp:
            yield replace(message, timestamp=stamp, mistake=mistake, code=Code.TIMESTAMP_CHANGED)

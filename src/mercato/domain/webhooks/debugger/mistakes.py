"""Which mistake makes a signature: every likely one is tried, one at a time, then those of key and content together.

Pure. The work is bounded: a handful of secrets, a few dozen bodies, and what can be wrong with id and timestamp.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from mercato.domain.webhooks.debugger.bodies import SHORT, forerunners
from mercato.domain.webhooks.debugger.findings import Code
from mercato.domain.webhooks.debugger.headers import Given
from mercato.kernel.outbound.signing import PREFIX
from mercato.kernel.wire import redacted


class SecretOrigin(Enum):
    """Where a secret comes from: the caller gave it, or it signs the caller's webhooks now, or still does."""

    GIVEN = "given"
    CURRENT = "current"
    PREVIOUS = "previous"


@redacted("text")
class Secret(Struct, frozen=True):
    """A signing secret. `index` counts among those of the same origin, from 0, the newest first."""

    text: str
    origin: SecretOrigin
    index: int = 0


@redacted("key")
class Key(Struct, frozen=True):
    """A key that somebody may have made of a secret. Without a `mistake` it is the right one."""

    secret: Secret
    key: bytes
    mistake: str | None = None
    code: Code = Code.KEY_NOT_DECODED


@redacted("body")
class Message(Struct, frozen=True):
    """What is signed. Without a `mistake` it is made as it should be."""

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
            name = next((one for one in parts if rest.startswith(one)), None)
            out += rest[0].encode() if name is None else parts[name]
            rest = rest[1 if name is None else len(name) :]
        return out


class Match(Struct, frozen=True):
    """A key and a message that make the signature."""

    key: Key
    message: Message
    given: Given


def usable_key(text: str) -> bytes | None:
    """Return the key that a secret stands for, None if it is none; the prefix may be missing, and the padding."""
    encoded = text.removeprefix(PREFIX)
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def find_right(secrets: Iterable[Secret], message: Message, given: Sequence[Given]) -> Match | None:
    """Return the match without any mistake but that of how the signature is written; one written well is preferred."""
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
    """Return the match that needs the fewest mistakes, None if there is none among those that are known.

    `ids` and `times` are what may have stood in the headers, `sent` what is known to have been sent.
    """
    right, wrong = list(_right_keys(secrets)), list(_wrong_keys(secrets))
    layouts = list(_laid_out(message))
    bodies = list(_bodies(message, sent))
    moved = list(_moved(message, ids, times))
    for keys, messages in (
        (right, bodies),
        (wrong, [message]),
        (right, moved),
        (right, layouts),
        (wrong, layouts if len(message.body) <= SHORT else []),
        (right, [_both(one, body) for one in moved for body in bodies[:1]] if sent is not None else []),
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
            for one in given:
                if hmac.compare_digest(one.digest, digest):
                    yield Match(key, message, one)


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
        "the secret's text was taken for the key, with its prefix whsec_ and without decoding it",
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
        "what follows whsec_ was taken for the key as it stands; the key is what it decodes to from base64",
        Code.KEY_NOT_DECODED,
    ),
    (
        lambda text: (PREFIX + text.removeprefix(PREFIX)).encode(),
        "whsec_ was put before the secret, and that text taken for the key",
        Code.WRONG_PREFIX,
    ),
    (
        lambda text: (usable_key(text) or b"").hex().encode(),
        "the key was written in hexadecimal digits, and those were taken for the key",
        Code.KEY_NOT_DECODED,
    ),
    (
        lambda text: usable_key("".join(text.split()).strip("\"'")) or b"",
        "there are blanks or quotes around or in the secret as it was given",
        Code.KEY_UNUSABLE,
    ),
    (
        lambda text: text.rstrip("\r\n").encode() + b"\n",
        "the secret's text was taken for the key, with its prefix and the line break of its file",
        Code.WRONG_PREFIX,
    ),
)

_LAYOUTS: Final = {
    "{body}": "it was made of the body alone; id and timestamp stand before it, each followed by a dot",
    "{timestamp}.{body}": "it was made without the webhook-id",
    "{id}.{body}": "it was made without the webhook-timestamp",
    "{timestamp}.{id}.{body}": "it was made with timestamp and id in the wrong order",
    "{body}.{timestamp}.{id}": "it was made with the body first; the order is id, timestamp, body",
    "{id}{timestamp}{body}": "it was made without the dots between id, timestamp and body",
    "{timestamp}{body}": "it was made of timestamp and body alone, without the dot between them",
    "{id}:{timestamp}:{body}": "it was made with colons where dots stand",
    "{id}\n{timestamp}\n{body}": "it was made with line breaks where dots stand",
    "{id}.{timestamp}.": "it was made of an empty body: had the body been read before?",
    "v0:{timestamp}:{body}": "it was made as Slack makes it",
}


def _laid_out(message: Message) -> Iterator[Message]:
    for layout, mistake in _LAYOUTS.items():
        yield Message(message.id, message.timestamp, message.body, layout, mistake)


def _bodies(message: Message, sent: bytes | None) -> Iterator[Message]:
    if sent is not None and sent != message.body:
        yield Message(
            message.id, message.timestamp, sent, mistake="the body was changed", code=Code.BODY_CHANGED
        )
    for words, body in forerunners(message.body):
        yield Message(message.id, message.timestamp, body, mistake=words, code=Code.BODY_RESERIALISED)


def _moved(message: Message, ids: Iterable[str], times: Iterable[int]) -> Iterator[Message]:
    for text in dict.fromkeys(ids):
        other = text.encode("utf-8", "replace")
        if other != message.id:
            yield Message(
                other,
                message.timestamp,
                message.body,
                mistake="webhook-id is not the id that was signed",
                code=Code.ID_CHANGED,
            )
    for seconds in dict.fromkeys(times):
        stamp = str(seconds).encode()
        if stamp != message.timestamp:
            yield Message(
                message.id,
                stamp,
                message.body,
                mistake="webhook-timestamp is not the time that was signed",
                code=Code.TIMESTAMP_CHANGED,
            )


def _both(moved: Message, body: Message) -> Message:
    return Message(moved.id, moved.timestamp, body.body, mistake=moved.mistake, code=moved.code)

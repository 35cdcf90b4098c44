"""The signature clinic: what is wrong with a webhook's signature, in words and by a code. Pure.

What it says of a webhook is what any Standard Webhooks verifier would say; why is found by trying what people
and frameworks do to keys, bodies and headers. It never repeats a secret.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from mercato.domain.webhooks.debugger import headers, messages
from mercato.domain.webhooks.debugger.bodies import BodyDifference, difference, how, looks_rewritten
from mercato.domain.webhooks.debugger.findings import ERROR, Code, Finding, SignatureExplanation, error, note
from mercato.domain.webhooks.debugger.headers import Envelope, Given
from mercato.domain.webhooks.debugger.mistakes import (
    Match,
    Message,
    Secret,
    SecretOrigin,
    find_right,
    find_wrong,
)
from mercato.kernel.wire import redacted

__all__ = ["Secret", "SecretOrigin", "Sent", "SignatureExplanation", "Webhook", "explain"]


@redacted("headers", "body")
class Webhook(Struct, frozen=True, kw_only=True):
    """A webhook as it was received. `received_at` is None when it is not known, and now is as good a guess."""

    headers: Mapping[str, str]
    body: bytes
    received_at: datetime | None = None
    computed: str | None = None
    """The signature that the receiver's own code came to."""


@redacted("body")
class Sent(Struct, frozen=True, kw_only=True):
    """What this service knows to have sent: `times` are those of its attempts, in Unix seconds."""

    delivery_id: UUID
    webhook_id: str
    body: bytes
    times: tuple[int, ...] = ()


def explain(
    webhook: Webhook,
    *,
    secrets: Sequence[Secret],
    others: Sequence[Secret] = (),
    sent: Sequence[Sent] = (),
    now: datetime,
) -> SignatureExplanation:
    """Return what is wrong. The webhook is valid if one of `secrets` signed it; `others` can only explain.

    `sent` are copies of what may be this webhook.
    """
    return _Clinic(webhook, secrets, others, _likeliest(sent, webhook.body), now).explained()


def _likeliest(sent: Sequence[Sent], body: bytes) -> Sent | None:
    return next((one for one in sent if one.body == body), sent[0] if sent else None)


class _Clinic:
    def __init__(
        self,
        webhook: Webhook,
        secrets: Sequence[Secret],
        others: Sequence[Secret],
        sent: Sent | None,
        now: datetime,
    ) -> None:
        self._webhook = webhook
        self._secrets = secrets
        self._all = [*secrets, *others]
        self._sent = sent
        self._now = now
        self._envelope: Envelope = headers.read_headers(webhook.headers)
        self._found: list[Finding] = []
        self._match: Match | None = None
        self._difference: BodyDifference | None = None

    def explained(self) -> SignatureExplanation:
        self._look_at_secrets()
        self._look_at_signature()
        self._look_at_copy()
        skew = self._look_at_clock()
        self._look_at_computed()
        findings = sorted(self._found, key=lambda one: one.level != ERROR)
        valid = not findings or findings[0].level != ERROR
        match = self._match
        return SignatureExplanation(
            valid=valid,
            code=Code.VALID.value if valid else findings[0].code,
            message=messages.VALID if valid else findings[0].message,
            findings=findings,
            difference=self._difference,
            skew_seconds=skew,
            signed_with=None if match is None else match.key.secret.origin.value,
            secret_index=None if match is None else match.key.secret.index,
            delivery_id=None if self._sent is None else self._sent.delivery_id,
        )

    def _look_at_secrets(self) -> None:
        for secret in self._secrets:
            finding = messages.of_secret(secret)
            if finding is not None:
                self._found.append(finding)

    def _look_at_signature(self) -> None:
        envelope = self._envelope
        message = self._message()
        if message is not None:
            right = find_right(self._secrets, message, envelope.given)
            if right is not None and right.given.flaw is None:
                # What else stands in the header is of no consequence: a verifier looks for one that fits.
                self._found = [messages.only_noted(one) for one in self._found]
                self._found += [messages.only_noted_signature(one) for one in envelope.findings]
                self._matched(right)
                return
        self._found += envelope.findings
        if message is not None and envelope.given:
            self._matched(self._searched(message))
        elif not any(one.level == ERROR for one in self._found):
            self._found.append(messages.NO_V1)

    def _message(self) -> Message | None:
        """Return what has to be signed. Where a header is missing, the copy may know what it said."""
        envelope, sent = self._envelope, self._sent
        id_ = envelope.id or (sent.webhook_id if sent is not None else None)
        stamp = envelope.timestamp or (str(sent.times[-1]) if sent is not None and sent.times else None)
        if id_ is None or stamp is None:
            return None
        return Message(id_.encode("utf-8", "replace"), stamp.encode("utf-8", "replace"), self._webhook.body)

    def _searched(self, message: Message) -> Match | None:
        given = self._envelope.given
        return find_right(self._all, message, given) or self._wrongly(message, given)

    def _wrongly(self, message: Message, given: Sequence[Given]) -> Match | None:
        sent = None if self._sent is None else self._sent.body
        return find_wrong(self._all, message, given, ids=self._ids(), times=self._times(), sent=sent)

    def _ids(self) -> Iterator[str]:
        written, sent = self._envelope.id or "", self._sent
        if sent is not None:
            yield sent.webhook_id
        for name, value in self._webhook.headers.items():
            if name.strip().lower() == "idempotency-key":
                yield value.strip()
        yield from (written.lower(), written.upper(), written.strip("\"'{}<>"), written.partition(",")[0])

    def _times(self) -> Iterator[int]:
        seconds = self._envelope.seconds
        if self._sent is not None:
            yield from (at + off for at in self._sent.times for off in (0, -1, 1))
        if seconds is not None:
            yield from (seconds, seconds * 1000)

    def _matched(self, match: Match | None) -> None:
        """Note what a match says, or that there is none."""
        self._match = match
        if match is None:
            self._found += self._unmatched()
            return
        if match.given.flaw is not None:
            self._found.append(match.given.flaw)
        if match.key.mistake is not None:
            self._found.append(messages.of_key(match.key.code, match.key.mistake))
        if match.message.mistake is not None:
            self._found.append(self._message_mistake(match.message))
        finding = messages.of_owner(match.key.secret, self._secrets)
        if finding is not None:
            self._found.append(finding)

    def _message_mistake(self, message: Message) -> Finding:
        if message.code in {Code.BODY_CHANGED, Code.BODY_RESERIALISED}:
            self._difference = self._differing(message.body)
            return messages.of_body(how(message.body, self._webhook.body), self._difference)
        if message.code is Code.WRONG_CONTENT:
            return error(
                Code.WRONG_CONTENT,
                f"What was signed is put together wrongly: {message.mistake}.",
                "Sign webhook-id, a dot, webhook-timestamp, a dot, and the bytes of the body.",
            )
        return error(message.code, f"The {message.mistake}.".replace("The w", "W"), messages.AS_THEY_CAME)

    def _differing(self, signed: bytes) -> BodyDifference | None:
        return difference(signed, self._webhook.body, hidden=[secret.text for secret in self._all])

    def _unmatched(self) -> list[Finding]:
        sent = self._sent
        if sent is not None and sent.body == self._webhook.body and sent.webhook_id == self._envelope.id:
            return [
                error(
                    Code.WRONG_KEY,
                    "Body and webhook-id are those that were sent, but no secret that was tried signed them: it is "
                    "another secret, or the timestamp or the signature was changed.",
                    messages.GET_IT,
                )
            ]
        found = [
            error(
                Code.WRONG_KEY,
                "None of the secrets that were tried made this signature"
                + (", nor did a mistake that is known here" if self._secrets else "")
                + ".",
                messages.GET_IT,
            )
        ]
        if sent is None and looks_rewritten(self._webhook.body):
            found.append(
                note(
                    Code.BODY_CHANGED,
                    "The body is not written as this service writes: it has white space between tokens, or escapes.",
                    "Verify the bytes as they came, before anything parses them. " + messages.COMPARE,
                )
            )
        elif sent is None:
            found.append(
                note(Code.BODY_CHANGED, "A body that was changed fails like this, too.", messages.COMPARE)
            )
        return found

    def _look_at_copy(self) -> None:
        """Compare with what was sent, where the signature has not told the difference already."""
        sent = self._sent
        if sent is None:
            return
        told = {one.code for one in self._found}
        if sent.body != self._webhook.body and self._difference is None:
            self._difference = self._differing(sent.body)
            finding = messages.of_body(how(sent.body, self._webhook.body), self._difference)
            right = self._match is not None and self._match.message.mistake is None
            self._found.append(messages.of_another(finding) if right else finding)
        written = self._envelope.id
        if written is not None and written != sent.webhook_id and Code.ID_CHANGED.value not in told:
            finding = error(Code.ID_CHANGED, "webhook-id is not that of the delivery.", messages.AS_THEY_CAME)
            self._found.append(finding if self._match is None else messages.of_another(finding))

    def _look_at_clock(self) -> int | None:
        seconds = self._envelope.seconds
        if seconds is None:
            return None
        known = self._webhook.received_at is not None
        skew = seconds - int((self._webhook.received_at or self._now).timestamp())
        if abs(skew) > messages.TOLERANCE:
            self._found.append(messages.of_clock(skew, known=known))
        return skew

    def _look_at_computed(self) -> None:
        """Say what the receiver's own code does, by the signature that it came to."""
        text = self._webhook.computed
        message = self._message()
        if not text or message is None:
            return
        given = headers.read_signature(text)
        bare = [Given(one.digest) for one in given]
        right = find_right(self._all, message, bare)
        found = right or self._wrongly(message, bare)
        if found is None:
            self._found.append(messages.COMPUTED_UNKNOWN)
            return
        mistakes = [one for one in (found.key.mistake, found.message.mistake) if one is not None]
        if mistakes:
            code = found.key.code if found.key.mistake is not None else found.message.code
            told = f"Of the signature that you computed: {' and '.join(mistakes)}."
            self._found.append(note(code, told, messages.RIGHT_WAY))
        else:
            finding = messages.of_owner(found.key.secret, self._secrets)
            self._found.append(messages.COMPUTED_RIGHT if finding is None else messages.only_noted(finding))

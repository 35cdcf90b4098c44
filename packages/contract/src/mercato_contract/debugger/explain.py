"""Explains what is wrong with a webhook's signature. Pure.

A webhook is valid if any Standard Webhooks verifier accepts it. Why it isn't is found by trying what people and
frameworks commonly do to keys, bodies and headers. Secrets are never repeated.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato_contract.debugger import headers
from mercato_contract.debugger.bodies import BodyDifference, describe_change, find_difference, looks_rewritten
from mercato_contract.debugger.findings import (
    ERROR,
    NOTE,
    VALID,
    Code,
    Finding,
    SignatureExplanation,
    finding,
)
from mercato_contract.debugger.headers import Given, SignedHeaders
from mercato_contract.debugger.mistakes import (
    Match,
    Message,
    Secret,
    SecretOrigin,
    check_secret,
    check_signer,
    find_right,
    find_wrong,
)
from mercato_contract.wire import redacted

__all__ = ["Secret", "SecretOrigin", "SentDelivery", "SignatureExplanation", "Webhook", "explain"]

TOLERANCE: Final = 300
"""Seconds that a timestamp may be off, as in the libraries of Standard Webhooks."""


@redacted("headers", "body")
class Webhook(Struct, frozen=True, kw_only=True):
    """A received webhook. If `received_at` is None, now is used. `computed` is the receiver's own signature."""

    headers: Mapping[str, str]
    body: bytes
    received_at: datetime | None = None
    computed: str | None = None


@redacted("body")
class SentDelivery(Struct, frozen=True, kw_only=True):
    """A delivery that this service has sent. `times` are those of its attempts, in Unix seconds."""

    delivery_id: UUID
    webhook_id: str
    body: bytes
    times: tuple[int, ...] = ()


def explain(
    webhook: Webhook,
    *,
    secrets: Sequence[Secret],
    others: Sequence[Secret] = (),
    sent: Sequence[SentDelivery] = (),
    now: datetime,
) -> SignatureExplanation:
    """Return what is wrong. The webhook is valid if one of `secrets` signed it; `others` can only explain.

    `sent` are deliveries that may be this webhook.
    """
    same = next((delivery for delivery in sent if delivery.body == webhook.body), sent[0] if sent else None)
    return _Debugger(webhook, secrets, others, same, now).explanation()


class _Debugger:
    def __init__(
        self,
        webhook: Webhook,
        secrets: Sequence[Secret],
        others: Sequence[Secret],
        sent: SentDelivery | None,
        now: datetime,
    ) -> None:
        self._webhook = webhook
        self._secrets = secrets
        self._all = [*secrets, *others]
        self._sent = sent
        self._now = now
        self._headers: SignedHeaders = headers.read_headers(webhook.headers)
        self._found: list[Finding] = []
        self._match: Match | None = None
        self._difference: BodyDifference | None = None

    def explanation(self) -> SignatureExplanation:
        self._found += [found for secret in self._secrets if (found := check_secret(secret)) is not None]
        self._check_signature()
        self._compare_with_sent()
        skew = self._check_clock()
        self._check_computed()
        findings = sorted(self._found, key=lambda found: found.level != ERROR)
        valid = not findings or findings[0].level != ERROR
        match = self._match
        return SignatureExplanation(
            valid=valid,
            code=Code.VALID.value if valid else findings[0].code,
            message=VALID if valid else findings[0].message,
            findings=findings,
            difference=self._difference,
            skew_seconds=skew,
            signed_with=None if match is None else match.key.secret.origin.value,
            secret_index=None if match is None else match.key.secret.index,
            delivery_id=None if self._sent is None else self._sent.delivery_id,
        )

    def _check_signature(self) -> None:
        message = self._message()
        if message is not None:
            right = find_right(self._secrets, message, self._headers.given)
            if right is not None and right.given.flaw is None:
                # Other signatures in the header don't matter: a verifier looks for one that matches.
                self._found = [_as_note(found) for found in self._found]
                self._found += [
                    _as_note(found) if found.code.startswith("SIGNATURE_") else found
                    for found in self._headers.findings
                ]
                self._add_match(right)
                return
        self._found += self._headers.findings
        if message is not None and self._headers.given:
            given = self._headers.given
            self._add_match(find_right(self._all, message, given) or self._find_wrong(message, given))
        elif not any(found.level == ERROR for found in self._found):
            self._found.append(finding("signature-not-v1"))

    def _message(self) -> Message | None:
        """Return the content to sign. The delivery replaces headers that are missing."""
        sent = self._sent
        id_ = self._headers.id or (sent.webhook_id if sent is not None else None)
        stamp = self._headers.timestamp or (str(sent.times[-1]) if sent is not None and sent.times else None)
        if id_ is None or stamp is None:
            return None
        return Message(id_.encode("utf-8", "replace"), stamp.encode("utf-8", "replace"), self._webhook.body)

    def _find_wrong(self, message: Message, given: Sequence[Given]) -> Match | None:
        sent = None if self._sent is None else self._sent.body
        return find_wrong(self._all, message, given, ids=self._ids(), times=self._times(), sent=sent)

    def _ids(self) -> Iterator[str]:
        written, sent = self._headers.id or "", self._sent
        if sent is not None:
            yield sent.webhook_id
        for name, value in self._webhook.headers.items():
            if name.strip().lower() == "idempotency-key":
                yield value.strip()
        yield from (written.lower(), written.upper(), written.strip("\"'{}<>"), written.partition(",")[0])

    def _times(self) -> Iterator[int]:
        seconds = self._headers.seconds
        if self._sent is not None:
            yield from (at + off for at in self._sent.times for off in (0, -1, 1))
        if seconds is not None:
            yield from (seconds, seconds * 1000)

    def _add_match(self, match: Match | None) -> None:
        """Add the findings of a match, or that there is none."""
        self._match = match
        if match is None:
            self._add_no_match()
            return
        if match.given.flaw is not None:
            self._found.append(match.given.flaw)
        if match.key.mistake is not None:
            self._found.append(finding("wrong-key", code=match.key.code, mistake=match.key.mistake))
        if match.message.mistake is not None:
            self._found.append(self._message_mistake(match.message))
        by_other = check_signer(match.key.secret, self._secrets)
        if by_other is not None:
            self._found.append(by_other)

    def _message_mistake(self, message: Message) -> Finding:
        match message.code:
            case Code.BODY_CHANGED | Code.BODY_RESERIALISED:
                return self._body_difference(message.body)
            case Code.ID_CHANGED:
                return finding("id-changed")
            case Code.TIMESTAMP_CHANGED:
                return finding("timestamp-changed")
            case _:
                return finding("wrong-content", mistake=message.mistake)

    def _body_difference(self, signed: bytes) -> Finding:
        received, hidden = self._webhook.body, [secret.text for secret in self._all]
        difference = self._difference = find_difference(signed, received, hidden=hidden)
        place = (
            ""
            if difference is None
            else f" They first differ at byte {difference.offset}"
            f" (line {difference.line}, column {difference.column})."
        )
        mistake = describe_change(signed, received)
        return finding(
            "body-changed" if mistake is None else "body-reserialised", mistake=mistake, place=place
        )

    def _add_no_match(self) -> None:
        sent = self._sent
        if sent is not None and sent.body == self._webhook.body and sent.webhook_id == self._headers.id:
            self._found.append(finding("unknown-secret-same-body"))
            return
        self._found.append(finding("unknown-secret" if self._secrets else "no-secret"))
        if sent is None:
            rewritten = looks_rewritten(self._webhook.body)
            self._found.append(finding("body-looks-rewritten" if rewritten else "body-may-be-changed"))

    def _compare_with_sent(self) -> None:
        """Add differences from the delivery that the signature has not shown yet."""
        sent, match = self._sent, self._match
        if sent is None:
            return
        codes = {found.code for found in self._found}
        if sent.body != self._webhook.body and self._difference is None:
            found = self._body_difference(sent.body)
            is_right = match is not None and match.message.mistake is None
            self._found.append(_of_another_webhook(found) if is_right else found)
        written = self._headers.id
        if written is not None and written != sent.webhook_id and Code.ID_CHANGED.value not in codes:
            found = finding("id-of-another")
            self._found.append(found if match is None else _of_another_webhook(found))

    def _check_clock(self) -> int | None:
        """Return `webhook-timestamp` less the time of receipt, in seconds."""
        seconds, received_at = self._headers.seconds, self._webhook.received_at
        if seconds is None:
            return None
        skew = seconds - int((received_at or self._now).timestamp())
        if abs(skew) > TOLERANCE:
            known = received_at is not None
            name = "clock-slow" if skew > 0 else "clock-fast" if known else "too-old"
            clock = "time of receipt" if known else "clock here"
            self._found.append(finding(name, seconds=abs(skew), clock=clock, tolerance=TOLERANCE))
        return skew

    def _check_computed(self) -> None:
        """Add what the receiver's code does, by the signature that it computed."""
        text = self._webhook.computed
        message = self._message()
        if not text or message is None:
            return
        given = headers.read_signature(text)
        match = find_right(self._all, message, given) or self._find_wrong(message, given)
        if match is None:
            self._found.append(finding("computed-unknown"))
            return
        mistakes = [mistake for mistake in (match.key.mistake, match.message.mistake) if mistake is not None]
        if mistakes:
            code = match.key.code if match.key.mistake is not None else match.message.code
            self._found.append(finding("computed-wrong", code=code, mistakes=" and ".join(mistakes)))
        else:
            by_other = check_signer(match.key.secret, self._secrets)
            self._found.append(finding("computed-right") if by_other is None else _as_note(by_other))


def _as_note(found: Finding) -> Finding:
    return replace(found, level=NOTE)


def _of_another_webhook(found: Finding) -> Finding:
    """Return the note that a webhook with a right signature differs from the delivery."""
    message = (
        f"{found.message} The signature is right all the same: this is another webhook than that delivery."
    )
    return replace(found, level=NOTE, message=message, advice="")

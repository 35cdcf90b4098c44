"""Webhooks for their receivers: verified, typed, and answered."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from mercato_client.errors import MercatoError, restored
from mercato_client.exchange import utc_now
from mercato_contract.debugger.explain import TOLERANCE, Secret, SecretOrigin, Webhook, explain
from mercato_contract.debugger.findings import ERROR, SignatureExplanation
from mercato_contract.debugger.headers import read_headers
from mercato_contract.debugger.mistakes import Message, find_right
from mercato_contract.events import (
    CancelReply,
    Envelope,
    OrderCancelData,
    OrderPlaceData,
    OrderValidateData,
    Payload,
    PlaceReply,
    ValidateReply,
    find_payload,
)
from mercato_contract.wire import Wire, as_json


class UnknownData(Wire):
    """The data of an event that this version of the client doesn't know; `raw` is its JSON."""

    raw: msgspec.Raw


EventData: TypeAlias = Payload | UnknownData


@dataclass(frozen=True, slots=True)
class Event:
    """A genuine webhook. A redelivery has the same `id`: store those that you have handled."""

    id: str
    type: str
    timestamp: str
    data: EventData = field(repr=False)


class Headers(Protocol):
    """Headers by name, in any letter case: a dict, or what a web framework has."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return names and values."""
        ...


class WebhookError(MercatoError):
    """The webhook isn't genuine: answer it with 401.

    `code`, `explanation` and the text say why. They are computed at their first use, in some milliseconds.
    """

    def __init__(self, diagnose: Callable[[], SignatureExplanation]) -> None:
        super().__init__()
        self._diagnose = diagnose

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return what was found, without the secrets that it was found with."""
        return restored, (type(self), self.args, {"explanation": self.explanation})

    @cached_property
    def explanation(self) -> SignatureExplanation:
        """What is wrong, and what to do: the result of the signature debugger."""
        return self._diagnose()

    @property
    def code(self) -> str:
        """The code of what is wrong, like `WRONG_KEY`."""
        return self.explanation.code

    def __str__(self) -> str:
        lines = [f"{self.explanation.code}: {self.explanation.message}"]
        lines += [f"  {finding.advice}" for finding in self.explanation.findings[:1] if finding.advice]
        return "\n".join(lines)


class UnreadableWebhookError(MercatoError):
    """The webhook is genuine, but its body doesn't match its type."""


def verify_webhook(
    headers: Headers, body: bytes, secrets: str | Sequence[str], *, now: Callable[[], datetime] = utc_now
) -> Event:
    """Return the event. `body` is the bytes as received; `secrets` are those that are valid now (`whsec_…`).

    Raises WebhookError when none of them signed it or its time is more than five minutes off, and
    UnreadableWebhookError.
    """
    if not isinstance(body, bytes):
        raise TypeError("Give the body's bytes as received: decoded text may differ from what was signed.")
    texts = (secrets,) if isinstance(secrets, str) else tuple(secrets)
    webhook = Webhook(headers=dict(headers.items()), body=body, received_at=now())
    given = [Secret(text, SecretOrigin.GIVEN, index) for index, text in enumerate(texts)]
    id_ = _signed_id(webhook, given)
    if id_ is None:
        raise WebhookError(lambda: explain(webhook, secrets=given, now=webhook.received_at or now()))
    return _event(id_, body)


def _signed_id(webhook: Webhook, secrets: Sequence[Secret]) -> str | None:
    """Return the webhook's id, None if the debugger would find it invalid."""
    headers = read_headers(webhook.headers)
    if headers.id is None or headers.timestamp is None or headers.seconds is None:
        return None
    message = Message(
        headers.id.encode("utf-8", "replace"), headers.timestamp.encode("utf-8", "replace"), webhook.body
    )
    match = find_right(secrets, message, headers.given)
    wrong = any(
        finding.level == ERROR and not finding.code.startswith("SIGNATURE_") for finding in headers.findings
    )
    assert webhook.received_at is not None
    late = abs(headers.seconds - int(webhook.received_at.timestamp())) > TOLERANCE
    return headers.id if match is not None and match.given.flaw is None and not wrong and not late else None


def _event(id_: str, body: bytes) -> Event:
    try:
        envelope = msgspec.json.decode(body, type=Envelope)
        kind = find_payload(envelope.type, envelope.data)
        data = (
            UnknownData(raw=envelope.data) if kind is None else msgspec.json.decode(envelope.data, type=kind)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise UnreadableWebhookError(f"The body of the webhook {id_} can't be read: {fault}.") from None
    return Event(id_, envelope.type, envelope.timestamp, data)


class Answer(NamedTuple):
    """An answer: an HTTP status, and a JSON body, which may be empty."""

    status: int
    body: bytes = b""


class Receiver:
    """Answers webhooks for any web framework: `status, body = receiver.answer(request.headers, body)`.

    `validate` answers whether an order is possible, `place` accepts one; without them every order is accepted.
    `cancel` answers whether the storefront may cancel an order; without it none is cancelled. A repeat of an order has
    the same `order_id`, of a cancellation the same `cancellation_id`: return the first answer again. `event` gets
    everything else, `refused` the webhooks that aren't genuine. Their exceptions are passed on: after a 500 the webhook
    is sent again.
    """

    def __init__(
        self,
        secrets: str | Sequence[str],
        *,
        validate: Callable[[OrderValidateData], ValidateReply] | None = None,
        place: Callable[[OrderPlaceData], PlaceReply] | None = None,
        cancel: Callable[[OrderCancelData], CancelReply] | None = None,
        event: Callable[[Event], object] | None = None,
        refused: Callable[[WebhookError | UnreadableWebhookError], object] | None = None,
    ) -> None:
        self._secrets = secrets
        self._validate = validate
        self._place = place
        self._cancel = cancel
        self._event = event
        self._refused = refused

    def answer(self, headers: Headers, body: bytes) -> Answer:
        """Return what to answer to the request with these headers and the bytes of this body."""
        try:
            event = verify_webhook(headers, body, self._secrets)
        except (WebhookError, UnreadableWebhookError) as fault:
            if self._refused is not None:
                self._refused(fault)
            return Answer(401 if isinstance(fault, WebhookError) else 400)
        match event.data:
            case OrderValidateData() as question:
                agreed = ValidateReply(is_valid=True) if self._validate is None else self._validate(question)
                return Answer(200, as_json(agreed))
            case OrderPlaceData() as order:
                reply = PlaceReply(accepted=True) if self._place is None else self._place(order)
                return Answer(200, as_json(reply))
            case OrderCancelData() as request:
                decision = CancelReply(accepted=False) if self._cancel is None else self._cancel(request)
                return Answer(200, as_json(decision))
        if self._event is not None:
            self._event(event)
        return Answer(204)

"""The answer to every webhook: verified, typed, handed to the function that knows, and as the service reads it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mercato.client.webhooks import Event, Headers, UnreadableWebhookError, WebhookError, verify_webhook
from mercato.orders.wire import PlaceData, PlaceReply, ValidateData, ValidateReply
from mercato.wire import as_json


class Answer(NamedTuple):
    """What to answer: an HTTP status, and a JSON body, which may be empty."""

    status: int
    body: bytes = b""


class Receiver:
    """Answers webhooks for any web framework: `status, body = receiver.answer(request.headers, body)`.

    `validate` is asked whether an order can be had, `place` takes one; without them every order is right. A repeat
    of an order has the same `order_id`: `place` must return its first answer again. `event` gets everything else,
    `refused` what is not believed. What they raise is the caller's: a 500 has the webhook sent again.
    """

    def __init__(
        self,
        secrets: str | Sequence[str],
        *,
        validate: Callable[[ValidateData], ValidateReply] | None = None,
        place: Callable[[PlaceData], PlaceReply] | None = None,
        event: Callable[[Event], object] | None = None,
        refused: Callable[[WebhookError | UnreadableWebhookError], object] | None = None,
    ) -> None:
        self._secrets = secrets
        self._validate = validate
        self._place = place
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
            case ValidateData() as question:
                agreed = ValidateReply(is_valid=True) if self._validate is None else self._validate(question)
                return Answer(200, as_json(agreed))
            case PlaceData() as order:
                taken = PlaceReply(accepted=True) if self._place is None else self._place(order)
                return Answer(200, as_json(taken))
        if self._event is not None:
            self._event(event)
        return Answer(204)

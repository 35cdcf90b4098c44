"""What a check of a merchant works with: signed calls to its webhook URL, right or wrong in one way."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import UNSET

from mercato import clock
from mercato.certify.merchant.judging import agreed
from mercato.certify.merchant.reply import Reply
from mercato.certify.model import Exchange, NoAnswer
from mercato.certify.shop import Draft, Shop
from mercato.certify.shown import Shower, address
from mercato.orders.bodies import PLACE as PLACED
from mercato.orders.bodies import VALIDATE as ASKED
from mercato.orders.model import Fulfillment, PickupFulfillment, ScheduleType
from mercato.orders.wire import PlaceData, ValidateData
from mercato.outbound.client import ORDER_REPLY
from mercato.outbound.outcomes import Pulled
from mercato.outbound.signing import target, webhook_headers
from mercato.webhooks.model import envelope
from mercato.wire import as_json

VALIDATE: Final = "validate"
PLACE: Final = "place"
CARD: Final = "tok_certify_4242"
"""A card token that opens nothing."""

PICKUP: Final[Fulfillment] = PickupFulfillment(schedule_type=ScheduleType.ASAP)

Change = Mapping[str, str | None]
"""Headers that are sent otherwise; None leaves one out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A webhook before it is sent. `late` is by how many seconds its timestamp is in the past.

    `sent` is the body that goes out in place of the one that is signed, `secrets` who signs it.
    """

    suffix: str
    body: bytes = field(repr=False)
    webhook_id: str
    late: int = 0
    secrets: tuple[str, ...] | None = field(default=None, repr=False)
    change: Change = field(default_factory=dict)
    sent: bytes | None = field(default=None, repr=False)

    def but(self, **members: Any) -> "Message":
        """Return the same message with other members."""
        return replace(self, **members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merchant:
    """Who is certified, and what is known of it."""

    webhook_url: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    shop: Shop
    session: aiohttp.ClientSession
    shower: Shower
    catalog_url: str | None = None
    declined_card: str | None = field(default=None, repr=False)
    validate_seconds: float = 5.0
    place_seconds: float = 15.0
    agreed: dict[str, Draft] = field(default_factory=dict)
    pulled: list[Pulled] = field(default_factory=list)


@dataclass(slots=True)
class Bench:
    """Sends for one check, and keeps what was sent and received."""

    of: Merchant
    exchanges: list[Exchange] = field(default_factory=list)

    # --- messages ---------------------------------------------------------------------------------

    def question(self, draft: Draft | None = None) -> Message:
        """Return an `order.validate` of an order, by default of the plainest there is."""
        order = (draft or self.plain()).order
        store = self.of.shop.store
        data = ValidateData(store_id=store.id, partner_store_id=store.partner_store_id, order=order)
        body = envelope(ASKED, occurred_at=clock.now(), data=data)
        return Message(suffix=VALIDATE, body=body, webhook_id=str(clock.new_id()))

    def placement(self, draft: Draft, *, payment: Any = UNSET) -> Message:
        """Return an `order.place` of a new order. What it is paid with is said, unless there is nothing."""
        store, order_id = self.of.shop.store, clock.new_id()
        data = PlaceData(
            order_id=order_id,
            store_id=store.id,
            partner_store_id=store.partner_store_id,
            order=draft.order,
            payment=UNSET if payment is UNSET else msgspec.Raw(as_json(payment)),
        )
        body = envelope(PLACED, occurred_at=clock.now(), data=data)
        return Message(suffix=PLACE, body=body, webhook_id=str(order_id))

    def event(self, suffix: str, kind: str, data: Any, *, webhook_id: str | None = None) -> Message:
        """Return an event."""
        body = envelope(kind, occurred_at=clock.now(), data=data)
        return Message(suffix=suffix, body=body, webhook_id=webhook_id or str(clock.new_id()))

    def plain(self, **options: Any) -> Draft:
        """Return the plainest order: one unit of one item, for pickup."""
        return self.of.shop.order([self.of.shop.plain], PICKUP, **options)

    async def agreed(self, draft: Draft | None = None) -> Draft:
        """Return the order at the amounts that the merchant agrees to. Raises Failed when it does not."""
        draft = draft or self.plain()
        key = as_json(draft.order.cart.line_items).decode()
        known = self.of.agreed.get(key)
        if known is None:
            reply = await self.send(self.question(draft))
            known = self.of.agreed[key] = draft.agreed(agreed(draft, reply))
        return known

    # --- sending ----------------------------------------------------------------------------------

    async def send(self, message: Message) -> Reply:
        """Send a webhook and return the reply. Raises NoAnswer when there is none in time."""
        headers = self.headers(message)
        seconds = self.of.validate_seconds if message.suffix == VALIDATE else self.of.place_seconds
        body = message.body if message.sent is None else message.sent
        return await self.call("POST", message.suffix, headers, body, seconds=seconds)

    async def call(
        self, method: str, suffix: str, headers: Mapping[str, str], body: bytes | None, *, seconds: float
    ) -> Reply:
        """Send any request below the webhook URL and return the reply."""
        url = target(self.of.webhook_url, suffix)
        began = monotonic()
        sent = self.of.shower.request(f"{method} {address(url)}", headers, body or b"")
        try:
            async with asyncio.timeout(seconds):
                reply = await self._exchange(method, url, headers, body)
        except TimeoutError:
            words = f"There was no whole answer within {seconds:g} s."
            self._keep(sent, words, began)
            raise NoAnswer(words) from None
        except (aiohttp.ClientError, OSError) as error:
            words = self.of.shower.text(f"There was no answer: {_why(error)}")
            self._keep(sent, words, began)
            raise NoAnswer(words) from None
        self._keep(sent, self.of.shower.reply(reply.status, reply.headers, reply.body), began)
        return reply

    def headers(self, message: Message) -> dict[str, str]:
        """Return the headers of a message as the service sends them, but for what is changed."""
        headers = webhook_headers(
            webhook_id=message.webhook_id,
            timestamp=int(clock.now().timestamp()) - message.late,
            body=message.body,
            secrets=message.secrets or (self.of.secret,),
            token=self.of.token,
            traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
        changed = {name.lower() for name in message.change}
        kept = {name: text for name, text in headers.items() if name.lower() not in changed}
        return kept | {name: text for name, text in message.change.items() if text is not None}

    def say(self, sent: str, received: str, began: float) -> None:
        """Keep an exchange that was made by other means."""
        self._keep(sent, received, began)

    async def _exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        async with self.of.session.request(
            method,
            url,
            data=body,
            headers={"Accept-Encoding": "identity", **headers},
            allow_redirects=False,
        ) as response:
            content = await response.content.read(ORDER_REPLY + 1) if method != "HEAD" else b""
            while len(content) <= ORDER_REPLY and (more := await response.content.read(ORDER_REPLY)):
                content += more
            return Reply(response.status, dict(response.headers), content)

    def _keep(self, sent: str, received: str, began: float) -> None:
        self.exchanges.append(Exchange(sent=sent, received=received, ms=round((monotonic() - began) * 1000)))


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its certificate is not to be trusted."
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name is not known."
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.os_error.strerror or 'it cannot be reached'}."
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before any answer."
    return "the connection broke off, or what came is not HTTP."

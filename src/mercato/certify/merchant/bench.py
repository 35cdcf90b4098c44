"""What a check of a merchant works with: signed calls to its webhook URL."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import UNSET

from mercato import clock
from mercato.certify.merchant import judging
from mercato.certify.merchant.reply import read
from mercato.certify.sending import Message, Receiver, Reply, Sender
from mercato.certify.shop import Draft, Shop
from mercato.orders.request import Fulfillment, PickupFulfillment, ScheduleType
from mercato.orders.wire import PlaceData, ValidateData
from mercato.outbound.results import Pulled
from mercato.webhooks.event_types import EventType
from mercato.webhooks.model import envelope
from mercato.wire import as_json

VALIDATE: Final = "validate"
PLACE: Final = "place"
CARD: Final = "tok_certify_4242"
"""A card token that opens nothing."""

PICKUP: Final[Fulfillment] = PickupFulfillment(schedule_type=ScheduleType.ASAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merchant:
    """Who is certified, and what is known of it."""

    receiver: Receiver
    shop: Shop
    catalog_url: str | None = None
    declined_card: str | None = field(default=None, repr=False)
    validate_seconds: float = 5.0
    agreed: dict[str, Draft] = field(default_factory=dict)
    pulled: list[Pulled] = field(default_factory=list)


class Bench(Sender):
    """Sends for one check of a merchant."""

    def __init__(self, merchant: Merchant) -> None:
        super().__init__(merchant.receiver)
        self.of = merchant

    def sample(self) -> Message:
        """Return the plainest question there is."""
        return self.question()

    def believed(self, reply: Reply) -> str:
        """Return the status of an answer that the service can read. Raises Failed for any other."""
        judging.yes_or_no(read(self.plain(), reply))
        return f"answered with {reply.status}"

    def seconds_for(self, suffix: str) -> float:
        """Return how long an answer may take: somebody waits for that to a question."""
        return self.of.validate_seconds if suffix == VALIDATE else self.receiver.seconds

    def question(self, draft: Draft | None = None) -> Message:
        """Return an `order.validate` of an order, by default of the plainest there is."""
        order = (draft or self.plain()).order
        store = self.of.shop.store
        data = ValidateData(store_id=store.id, partner_store_id=store.partner_store_id, order=order)
        body = envelope(EventType.ORDER_VALIDATE, occurred_at=clock.now(), data=data)
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
        body = envelope(EventType.ORDER_PLACE, occurred_at=clock.now(), data=data)
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
            known = self.of.agreed[key] = draft.agreed(judging.agreed(draft, reply))
        return known

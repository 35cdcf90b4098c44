"""What a check of a merchant works with: webhooks about sample orders, and what the merchant answers to them."""

from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct

from mercato_catalog.model import NO_ONBOARDING
from mercato_contract import clock
from mercato_contract.amounts import Sums
from mercato_contract.events import EventType, OrderPlaceData, OrderValidateData
from mercato_contract.replies import (
    Acceptance,
    InvalidReply,
    Quote,
    Rejection,
    quote,
    read_place,
    read_validate,
)
from mercato_contract.wire import as_json
from mercato_outbound.results import PulledDocument
from mercato_tools.certify.receiver import Change, Message, Receiver, ReceiverContext, ReceiverReply
from mercato_tools.certify.sample_store import PricedOrder, SampleStore
from mercato_tools.certify.suite import Failed

VALIDATE: Final = "validate"
PLACE: Final = "place"
CARD: Final = "tok_certify_4242"
"""A card token without value."""

SECONDS: Final = 55.0
"""The time limit of all checks together."""

A = TypeVar("A", bound=Quote | Acceptance)


@dataclass(frozen=True, slots=True, kw_only=True)
class MerchantOptions:
    """What is known of the merchant. `document` is its catalog, if it is given as a file and not as a URL."""

    webhook_url: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    catalog_url: str | None = None
    document: bytes | None = None
    partner_store_id: str = "certify-1"
    store_id: UUID = field(default_factory=clock.new_id)
    onboarding_id: UUID = NO_ONBOARDING
    timezone: str = "UTC"
    sold_out: tuple[UUID, ...] = ()
    declined_card: str | None = field(default=None, repr=False)
    validate_seconds: float = 5.0
    place_seconds: float = 15.0
    seconds: float = SECONDS


class Merchant(Struct, frozen=True, kw_only=True):
    """The merchant that is certified. `pulled` has the catalog once a check has pulled it."""

    receiver: Receiver
    sample: SampleStore
    options: MerchantOptions
    pulled: list[PulledDocument] = msgspec.field(default_factory=list)


class MerchantContext(ReceiverContext):
    """What one check works with."""

    def __init__(self, merchant: Merchant) -> None:
        super().__init__(merchant.receiver)
        self.merchant = merchant
        self.store = merchant.sample.store

    def sample(self) -> Message:
        return self.validate_message(self.order())

    def accepted(self, reply: ReceiverReply) -> str:
        answered(read_agreement(self.order(), reply))
        return f"answered {reply.status}"

    def seconds_for(self, suffix: str) -> float:
        return self.merchant.options.validate_seconds if suffix == VALIDATE else self.receiver.seconds

    def order(self, *lines: Any, **options: Any) -> PricedOrder:
        """Return an order of the lines, by default one unit of one item for pickup."""
        return self.merchant.sample.order(lines, **options)

    def validate_message(self, order: PricedOrder, change: Change | None = None) -> Message:
        data = OrderValidateData(
            store_id=self.store.id, partner_store_id=self.store.partner_store_id, order=order.order
        )
        return self.message(VALIDATE, EventType.ORDER_VALIDATE, data, change=change)

    async def validate(
        self, order: PricedOrder, change: Change | None = None
    ) -> Quote | Rejection | InvalidReply:
        """Send an `order.validate` and return the answer."""
        return read_agreement(order, await self.send(self.validate_message(order, change)))

    async def agree(self, order: PricedOrder, change: Change | None = None) -> Sums:
        """Return the amounts that the merchant agrees to. Raises Failed when it doesn't agree."""
        return approved(await self.validate(order, change)).sums

    async def agreed_order(self, order: PricedOrder | None = None) -> PricedOrder:
        """Return an order at the amounts that the merchant agrees to. Raises Failed when it doesn't agree."""
        order = order or self.order()
        return order.at(await self.agree(order))

    async def place_message(
        self, order: PricedOrder | None = None, *, payment: Any = UNSET, change: Change | None = None
    ) -> Message:
        """Return an `order.place` of an order that the merchant has just agreed to."""
        order_id, agreed = clock.new_id(), await self.agreed_order(order)
        data = OrderPlaceData(
            order_id=order_id,
            store_id=self.store.id,
            partner_store_id=self.store.partner_store_id,
            order=agreed.order,
            payment=UNSET if payment is UNSET else msgspec.Raw(as_json(payment)),
        )
        return self.message(PLACE, EventType.ORDER_PLACE, data, webhook_id=order_id, change=change)

    async def place(self, message: Message) -> Acceptance | Rejection | InvalidReply:
        """Send an `order.place` and return the answer."""
        return read_placement(await self.send(message))


# --- answers ---------------------------------------------------------------------------------------


def read_agreement(order: PricedOrder, reply: ReceiverReply) -> Quote | Rejection | InvalidReply:
    """Return the answer to `order.validate` as the service reads it."""
    return quote(order.sums, read_validate(reply.status, reply.body))


def read_placement(reply: ReceiverReply) -> Acceptance | Rejection | InvalidReply:
    """Return the answer to `order.place` as the service reads it."""
    return read_place(reply.status, reply.body)


def approved(answer: A | Rejection | InvalidReply) -> A:
    """Return an acceptance. Raises Failed for anything else."""
    match answer:
        case Rejection():
            raise Failed(f"It refused a correct order: {codes(answer)}.")
        case InvalidReply(message=message):
            raise Failed(message)
    return answer


def read_verdict(answer: Quote | Acceptance) -> str:
    """Return that nothing of an acceptance is said in members that aren't read. Raises Failed."""
    if answer.warning is not None:
        raise Failed(answer.warning)
    return "nothing was said in other members"


def refused(answer: Quote | Acceptance | Rejection | InvalidReply, what: str, code: str = "") -> str:
    """Return the codes of a refusal, or the one that it must have. Raises Failed for anything else."""
    match answer:
        case Rejection(errors=errors):
            if code and all(error.code != code for error in errors):
                raise Failed(f"It refused {what}, but with {codes(answer)}, not with {code}.")
            return f"refused: {code or codes(answer)}"
        case InvalidReply(message=message):
            raise Failed(message)
    raise Failed(" ".join((f"It accepted {what}.", *filter(None, [answer.warning]))))


def answered(answer: Quote | Acceptance | Rejection | InvalidReply) -> str:
    """Return whether it was a yes or a no. Raises Failed when it was neither."""
    match answer:
        case InvalidReply(message=message):
            raise Failed(message)
        case Rejection():
            return f"no: {codes(answer)}"
    return "yes"


def codes(answer: Rejection) -> str:
    return ", ".join(error.code for error in answer.errors)

"""How a merchant receives events: it acknowledges them, whether it knows them or not, once or several times."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from mercato.features.stores.events import SYNC_EVENTS
from mercato.platform.clock import new_id
from mercato.tools.certify.merchant.context import MerchantContext, approved
from mercato.tools.certify.mutations import with_unknown_members
from mercato.tools.certify.receiver import WRONG_SECRET, Change, Message, acknowledged, rejected
from mercato.tools.certify.suite import Run
from mercato_contract.catalogs import CatalogFault, RunStatus
from mercato_contract.events import SUFFIXES, CatalogSyncWebhookData, EventType, OrderCancelledData

FAULT: Final = CatalogFault(message="items/a: basePrice is not a decimal.", path="/items/a/basePrice")

Context = MerchantContext
Event = Callable[[Context], Awaitable[Message]]


def acknowledges(event: Event, *, times: int = 1) -> Run[Context]:
    """Return a check that an event is acknowledged, however often it is sent."""

    async def run(context: Context) -> str:
        message = await event(context)
        replies = [await context.send(message.but(age=2 * left)) for left in reversed(range(times))]
        return [acknowledged(reply) for reply in replies][-1]

    return run


def rejects(event: Event) -> Run[Context]:
    """Return a check that an event with a wrong signature is rejected."""

    async def run(context: Context) -> str:
        return rejected(await context.send((await event(context)).but(secrets=(WRONG_SECRET,))))

    return run


async def _sync(
    context: Context, status: RunStatus = RunStatus.SUCCEEDED, change: Change | None = None
) -> Message:
    run_id = new_id()
    data = CatalogSyncWebhookData(
        catalog_ingest_id=run_id,
        store_id=context.store.id,
        status=status,
        errors=(FAULT,) if status is RunStatus.FAILED else (),
    )
    return context.message(
        SUFFIXES[SYNC_EVENTS[status]], SYNC_EVENTS[status], data, webhook_id=run_id, change=change
    )


async def _unknown_type(context: Context) -> Message:
    data = {"storeId": str(context.store.id), "news": "something that is not invented yet"}
    return context.message(SUFFIXES[EventType.CATALOG_SYNC_FAILED], "catalog.sync.paused", data)


async def _cancelled(context: Context, order_id: UUID | None = None) -> Message:
    """Return the cancellation of an order, by default of one that was never placed."""
    data = OrderCancelledData(
        order_id=order_id or new_id(),
        store_id=context.store.id,
        partner_store_id=context.store.partner_store_id,
        cancel_reason="STORE_UNREACHABLE",
        order=(await context.agreed_order()).order,
    )
    return context.message(SUFFIXES[EventType.ORDER_CANCELLED], EventType.ORDER_CANCELLED, data)


async def _placed_and_cancelled(context: Context) -> Message:
    message = await context.place_message()
    approved(await context.place(message))
    return await _cancelled(context, UUID(message.webhook_id))


EVENTS: Final[Mapping[str, Run[Context]]] = {
    "catalog-sync-succeeded": acknowledges(_sync),
    "catalog-sync-failed": acknowledges(partial(_sync, status=RunStatus.FAILED)),
    "order-cancelled": acknowledges(_placed_and_cancelled),
    "unknown-order-cancelled": acknowledges(_cancelled),
    "cancelled-again": acknowledges(_placed_and_cancelled, times=2),
    "repeat-acknowledged": acknowledges(_sync, times=2),
    "unknown-type-acknowledged": acknowledges(_unknown_type),
    "unknown-members-ignored": acknowledges(partial(_sync, change=with_unknown_members)),
    "sync-checked": rejects(_sync),
    "cancelled-checked": rejects(_cancelled),
}

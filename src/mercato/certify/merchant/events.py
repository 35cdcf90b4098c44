"""How a merchant receives events: what has happened is acknowledged, known or not, once or again."""

from typing import Any, Final
from uuid import UUID

from mercato.catalog.model import CatalogFault
from mercato.catalog.runs import RunStatus
from mercato.catalog.wire import CatalogSyncWebhookData
from mercato.certify.grown import grown
from mercato.certify.merchant import judging
from mercato.certify.merchant.altered import rewritten
from mercato.certify.merchant.bench import Bench
from mercato.certify.merchant.placing import ACCEPTED as TAKEN
from mercato.certify.sending import Message
from mercato.certify.signatures import another_secret
from mercato.certify.statuses import acknowledged, not_believed
from mercato.certify.suite import Group
from mercato.clock import new_id
from mercato.orders.wire import CancelledData
from mercato.stores.events import SYNC_EVENTS
from mercato.webhooks.deliveries import CATALOG_SYNC, ORDER_CANCELLED
from mercato.webhooks.event_types import EventType

SUCCEEDED: Final = "merchant.events.catalog-sync-succeeded"
CANCELLED: Final = "merchant.events.order-cancelled"
UNKNOWN: Final = "merchant.events.unknown-order-cancelled"

group: Final = Group[Bench](
    "merchant.events",
    heading="Events: acknowledged, once or again",
    section="Specification 6; decisions 9",
    needs=SUCCEEDED,
)

_ANY: Final = (
    "Answer any 2xx as soon as the event is kept, whatever it says. If you want none of this kind, answer 410: then "
    "it is not sent any more."
)


@group.check(
    "catalog-sync-succeeded",
    "catalog.sync.succeeded is acknowledged",
    needs="merchant.signature.accepted",
    proves="the end of a catalog's run can be told at {webhookUrl}/catalog-sync",
    advice=_ANY,
)
async def sync_succeeded(bench: Bench) -> str:
    """Tell that a catalog was taken."""
    return acknowledged(await bench.send(_sync(bench)))


@group.check(
    "catalog-sync-failed",
    "catalog.sync.failed is acknowledged",
    proves="bad news is no fault of who brings it",
    advice=_ANY,
)
async def sync_failed(bench: Bench) -> str:
    """Tell that a catalog was not taken."""
    return acknowledged(await bench.send(_sync(bench, failed=True)))


@group.check(
    "order-cancelled",
    "order.cancelled is acknowledged",
    needs=TAKEN,
    section="Decisions 8, 9",
    proves="the store learns that an order is not wanted any more",
    advice="Cancel the order and answer any 2xx.",
)
async def cancelled(bench: Bench) -> str:
    """Place an order and cancel it."""
    message = bench.placement(await bench.agreed())
    judging.taken(await bench.send(message))
    return acknowledged(await bench.send(await _cancelled(bench, UUID(message.webhook_id))))


@group.check(
    "unknown-order-cancelled",
    "The end of an order that never came, too",
    needs=CANCELLED,
    section="Decisions 8, 9",
    proves="an order that was lost on the way can be called off",
    advice="Answer 2xx for an order that you do not know: it was cancelled because it never reached you.",
)
async def unknown_cancelled(bench: Bench) -> str:
    """Cancel an order that was never placed."""
    return acknowledged(await bench.send(await _cancelled(bench, new_id())))


@group.check(
    "cancelled-again",
    "An order that is cancelled again, too",
    needs=CANCELLED,
    section="Decisions 8, 9",
    proves="an event may come twice",
    advice="Answer 2xx to an event that came before: by its webhook-id, or because nothing is left to do.",
)
async def cancelled_again(bench: Bench) -> str:
    """Cancel an order twice."""
    message = bench.placement(await bench.agreed())
    judging.taken(await bench.send(message))
    event = await _cancelled(bench, UUID(message.webhook_id))
    acknowledged(await bench.send(event.but(late=2)))
    return acknowledged(await bench.send(event))


@group.check(
    "repeat-acknowledged",
    "An event that comes again is acknowledged",
    section="Specification 6",
    proves="a redelivery is no error",
    advice="Answer 2xx to an event whose webhook-id came before, and do nothing else.",
)
async def repeat(bench: Bench) -> str:
    """Send an event twice."""
    event = _sync(bench)
    acknowledged(await bench.send(event.but(late=2)))
    return acknowledged(await bench.send(event))


@group.check(
    "unknown-type-acknowledged",
    "An event of an unknown type is acknowledged",
    section="Decisions 11",
    proves="new kinds of events can be added",
    advice="Answer 2xx to a `type` that you do not know, and do nothing else.",
)
async def unknown_type(bench: Bench) -> str:
    """Send an event of the future."""
    data = {"storeId": str(bench.of.shop.store.id), "news": "something that is not invented yet"}
    return acknowledged(await bench.send(bench.event(CATALOG_SYNC, "catalog.sync.paused", data)))


@group.check(
    "unknown-members-ignored",
    "Members that are new are passed over",
    section="Decisions 11",
    proves="the service can add to what it sends",
    advice="Read the members that you know and pass over all others.",
)
async def unknown_members(bench: Bench) -> str:
    """Put unknown members everywhere."""
    return acknowledged(await bench.send(rewritten(_sync(bench), grown)))


@group.check(
    "sync-checked",
    "Forged news of a catalog is refused",
    needs=("merchant.signature.wrong-key-refused", SUCCEEDED),
    section="Specification 5.3",
    proves="one verification serves every path",
    advice="Verify the signature on /catalog-sync, too, and answer 401 when it does not verify.",
)
async def sync_checked(bench: Bench) -> str:
    """Sign with a secret that nobody has."""
    return not_believed(await bench.send(_sync(bench).but(secrets=(another_secret(),))))


@group.check(
    "cancelled-checked",
    "A forged cancellation is refused",
    needs=("merchant.signature.wrong-key-refused", UNKNOWN),
    section="Specification 5.3",
    proves="nobody else can cancel an order",
    advice="Verify the signature on /order-cancelled, too, and answer 401 when it does not verify.",
)
async def cancelled_checked(bench: Bench) -> str:
    """Sign with a secret that nobody has."""
    event = await _cancelled(bench, new_id())
    return not_believed(await bench.send(event.but(secrets=(another_secret(),))))


def _sync(bench: Bench, *, failed: bool = False) -> Message:
    run_id = new_id()
    fault = CatalogFault(message="items/a: basePrice is not a decimal.", path="/items/a/basePrice")
    data = CatalogSyncWebhookData(
        catalog_ingest_id=run_id,
        store_id=bench.of.shop.store.id,
        status=RunStatus.FAILED if failed else RunStatus.SUCCEEDED,
        errors=(fault,) if failed else (),
    )
    return bench.event(CATALOG_SYNC, SYNC_EVENTS[data.status], data, webhook_id=str(run_id))


async def _cancelled(bench: Bench, order_id: UUID) -> Message:
    draft = await bench.agreed()
    data: Any = CancelledData(
        order_id=order_id,
        store_id=bench.of.shop.store.id,
        partner_store_id=bench.of.shop.store.partner_store_id,
        cancel_reason="STORE_UNREACHABLE",
        order=draft.order,
    )
    return bench.event(ORDER_CANCELLED, EventType.ORDER_CANCELLED, data)

"""The certification of a merchant: its options, its checks, and one run of them.

Here are the checks of its catalog, which can be pulled and would be accepted, and of events, which it acknowledges
whether it knows them or not, once or several times.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final
from uuid import UUID

from msgspec import UNSET

from mercato_contract.catalogs import CatalogFault, RunStatus
from mercato_contract.certification import CheckOutcome
from mercato_contract.clock import new_id
from mercato_contract.events import (
    SUFFIXES,
    SYNC_EVENTS,
    CatalogSyncWebhookData,
    EventType,
    OrderCancelledData,
)
from mercato_contract.texts import count_of
from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import NotModified, Options, PulledDocument, PullLimits, RequestFailed
from mercato_tools.certify.merchant.cancel import CANCEL
from mercato_tools.certify.merchant.context import CARD, Merchant, MerchantContext, MerchantOptions, approved
from mercato_tools.certify.merchant.place import PLACE
from mercato_tools.certify.merchant.validate import VALIDATE
from mercato_tools.certify.receiver import (
    SIGNATURE,
    TRANSPORT,
    WRONG_SECRET,
    Change,
    Message,
    Receiver,
    acknowledged,
    check_reachable,
    open_session,
    rejected,
)
from mercato_tools.certify.sample_store import EXAMPLE, SampleStore, sample_store, with_unknown_members
from mercato_tools.certify.suite import (
    Check,
    Failed,
    NoAnswer,
    Redactor,
    Report,
    Run,
    Runner,
    Skipped,
    Suite,
    UnusableTargetError,
    without_credentials,
)
from mercato_tools.lint import lint

FAULT: Final = CatalogFault(
    code="invalid-price", message="items/a: basePrice is not a decimal.", path="/items/a/basePrice"
)

MakeEvent = Callable[[MerchantContext], Awaitable[Message]]


def acknowledges(event: MakeEvent, *, times: int = 1) -> Run[MerchantContext]:
    """Return a check that an event is acknowledged, however often it is sent."""

    async def run(context: MerchantContext) -> str:
        message = await event(context)
        replies = [await context.send(message.but(age=2 * left)) for left in reversed(range(times))]
        return [acknowledged(reply) for reply in replies][-1]

    return run


def rejects(event: MakeEvent) -> Run[MerchantContext]:
    """Return a check that an event with a wrong signature is rejected."""

    async def run(context: MerchantContext) -> str:
        return rejected(await context.send((await event(context)).but(secrets=(WRONG_SECRET,))))

    return run


async def _sync(
    context: MerchantContext,
    status: RunStatus = RunStatus.SUCCEEDED,
    change: Change | None = None,
    *,
    is_rollback: bool = False,
) -> Message:
    run_id = new_id()
    data = CatalogSyncWebhookData(
        catalog_ingest_id=run_id,
        store_id=context.store.id,
        status=status,
        errors=(FAULT,) if status is RunStatus.FAILED else (),
        rolled_back_from=new_id() if is_rollback else UNSET,
    )
    return context.message(
        SUFFIXES[SYNC_EVENTS[status]], SYNC_EVENTS[status], data, webhook_id=run_id, change=change
    )


async def _unknown_type(context: MerchantContext) -> Message:
    data = {"storeId": str(context.store.id), "news": "something that is not invented yet"}
    return context.message(SUFFIXES[EventType.CATALOG_SYNC_FAILED], "catalog.sync.paused", data)


async def _cancelled(context: MerchantContext, order_id: UUID | None = None) -> Message:
    """Return the cancellation of an order, by default of one that was never placed."""
    data = OrderCancelledData(
        order_id=order_id or new_id(),
        store_id=context.store.id,
        partner_store_id=context.store.partner_store_id,
        cancel_reason="STORE_UNREACHABLE",
        order=(await context.agreed_order()).order,
    )
    return context.message(SUFFIXES[EventType.ORDER_CANCELLED], EventType.ORDER_CANCELLED, data)


async def _placed_and_cancelled(context: MerchantContext) -> Message:
    message = await context.place_message()
    approved(await context.place(message))
    return await _cancelled(context, UUID(message.webhook_id))


EVENTS: Final[Mapping[str, Run[MerchantContext]]] = {
    "catalog-sync-succeeded": acknowledges(_sync),
    "catalog-sync-failed": acknowledges(partial(_sync, status=RunStatus.FAILED)),
    "catalog-sync-rolled-back": acknowledges(partial(_sync, is_rollback=True)),
    "order-cancelled": acknowledges(_placed_and_cancelled),
    "unknown-order-cancelled": acknowledges(_cancelled),
    "cancelled-again": acknowledges(_placed_and_cancelled, times=2),
    "repeat-acknowledged": acknowledges(_sync, times=2),
    "unknown-type-acknowledged": acknowledges(_unknown_type),
    "unknown-members-ignored": acknowledges(partial(_sync, change=with_unknown_members)),
    "sync-checked": rejects(_sync),
    "cancelled-checked": rejects(_cancelled),
}


LIMITS: Final = PullLimits(subject="catalog URL", waits=())


async def pull(url: str, *, etag: str | None = None) -> PulledDocument | NotModified:
    """Pull a catalog once. Raises RequestFailed."""
    async with Outbound(Options(policy=AddressPolicy(allow_private=True))) as outbound:
        return await outbound.pull(url, limits=LIMITS, etag=etag)


async def _pull(context: MerchantContext, *, etag: str | None = None) -> PulledDocument | NotModified:
    url = context.merchant.options.catalog_url
    if url is None:
        raise Skipped("Give the address of your catalog with --catalog https://…")
    sent = f"GET {without_credentials(url)}" + (f"\nIf-None-Match: {etag}" if etag else "")
    began = monotonic()
    try:
        pulled = await pull(url, etag=etag)
    except RequestFailed as failure:
        context.record(sent, failure.message, began)
        raise NoAnswer(failure.message) from None
    context.record(sent, _shown(pulled), began)
    return pulled


def _shown(pulled: PulledDocument | NotModified) -> str:
    if isinstance(pulled, NotModified):
        return "304"
    size = f"{pulled.raw_size:,} bytes ({pulled.encoding}), {len(pulled.body):,} decoded"
    return f"200\nETag: {pulled.etag}\n\n{size}"


async def _pull_whole(context: MerchantContext) -> PulledDocument:
    pulled = await _pull(context)
    assert isinstance(pulled, PulledDocument), "no ETag was sent"
    return pulled


def _first(context: MerchantContext, *, needs_etag: bool = True) -> PulledDocument:
    """Return the catalog as the first check pulled it."""
    pulled = context.merchant.pulled[-1]
    if needs_etag and pulled.etag is None:
        raise Skipped("The catalog has no ETag. With one, an unchanged catalog need not be sent again.")
    return pulled


async def _served(context: MerchantContext) -> str:
    pulled = await _pull_whole(context)
    context.merchant.pulled.append(pulled)
    return f"{pulled.raw_size:,} bytes in {pulled.elapsed_ms} ms"


async def _valid(context: MerchantContext) -> str:
    pulled = _first(context, needs_etag=False)
    context.record(f"GET {without_credentials(pulled.final_url)}", _shown(pulled), monotonic())
    report, _ = await asyncio.to_thread(lint, pulled.body, default_currency="USD", max_bytes=LIMITS.max_raw)
    if report.errors:
        count, first = count_of(len(report.errors), "error"), report.errors[0]
        raise Failed(f"It has {count}; the first, at {first.path or 'the start'}: {first.message}")
    assert report.summary is not None, "a catalog without errors has a summary"
    return f"{count_of(report.summary.items, 'item')}, {count_of(len(report.warnings), 'warning')}"


async def _not_modified(context: MerchantContext) -> str:
    again = await _pull(context, etag=_first(context).etag)
    if not isinstance(again, NotModified):
        raise Failed("It sent the catalog again, although If-None-Match had its ETag.")
    return "304"


async def _etag_of_content(context: MerchantContext) -> str:
    first, again = _first(context), await _pull_whole(context)
    is_same = first.body == again.body
    if (first.etag == again.etag) is not is_same:
        raise Failed(
            f"The ETags are {first.etag} and {again.etag}, for {'the same' if is_same else 'other'} bytes."
        )
    return "one ETag, the same bytes"


CATALOG: Final[Mapping[str, Run[MerchantContext]]] = {
    "served": _served,
    "valid": _valid,
    "not-modified": _not_modified,
    "etag-of-content": _etag_of_content,
}


MERCHANT: Final = Suite[MerchantContext](
    "merchant",
    {
        "signature": SIGNATURE,
        "validate": VALIDATE,
        "place": PLACE,
        "cancel": CANCEL,
        "events": EVENTS,
        "transport": TRANSPORT,
        "catalog": CATALOG,
    },
)


async def certify_merchant(
    options: MerchantOptions, checks: Sequence[Check[MerchantContext]], report: Report
) -> tuple[CheckOutcome, ...]:
    """Run the checks; each outcome is reported as soon as it is known. Raises UnusableTargetError."""
    sample = await _sample(options)
    await check_reachable(options.webhook_url)
    secrets = (options.secret, options.token, options.declined_card, CARD)
    async with open_session() as session:
        merchant = Merchant(
            receiver=Receiver(
                url=options.webhook_url,
                secret=options.secret,
                token=options.token,
                session=session,
                redactor=Redactor(tuple(secret for secret in secrets if secret)),
                seconds=options.place_seconds,
            ),
            sample=sample,
            options=options,
        )
        runner = Runner(checks, context=lambda: MerchantContext(merchant), seconds=options.seconds)
        return await runner.run(report)


async def _sample(options: MerchantOptions) -> SampleStore:
    """Return a store that sells the merchant's catalog, or an example if that is unknown or invalid."""
    make = partial(
        sample_store,
        store_id=options.store_id,
        partner_store_id=options.partner_store_id,
        timezone=options.timezone,
        onboarding_id=options.onboarding_id,
        sold_out=options.sold_out,
    )
    document = options.document or await _pulled(options.catalog_url)
    sample = make(document) if document else None
    if sample is None and options.document is not None:
        raise UnusableTargetError("The catalog isn't valid. For the reasons: mercato catalog lint FILE")
    sample = sample or make(EXAMPLE)
    assert sample is not None, "the example is valid"
    try:
        sample.order()
    except LookupError:
        raise UnusableTargetError(
            f"Nothing of the catalog is on sale now (in {options.timezone}). Items need a basePrice, a section and an "
            "open hour. Give the store's time zone with --timezone, or another catalog."
        ) from None
    return sample


async def _pulled(url: str | None) -> bytes | None:
    """Return the catalog, None when it can't be pulled: a check says why."""
    if url is None:
        return None
    try:
        pulled = await pull(url)
    except RequestFailed:
        return None
    assert not isinstance(pulled, NotModified), "no ETag was sent"
    return pulled.body

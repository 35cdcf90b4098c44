"""Whether the merchant's catalog can be pulled, and would be accepted."""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

from mercato.features.catalogs.lint import lint
from mercato.platform.outbound.addresses import AddressPolicy
from mercato.platform.outbound.client import Outbound
from mercato.platform.outbound.results import NotModified, Options, PulledDocument, PullLimits, RequestFailed
from mercato.platform.texts import count_of
from mercato.tools.certify.merchant.context import MerchantContext
from mercato.tools.certify.redaction import without_credentials
from mercato.tools.certify.suite import Failed, Run, Skipped

LIMITS: Final = PullLimits(subject="catalog URL", waits=())

Context = MerchantContext


async def pull(url: str, *, etag: str | None = None) -> PulledDocument | NotModified:
    """Pull a catalog once. Raises RequestFailed."""
    async with Outbound(Options(policy=AddressPolicy(allow_private=True))) as outbound:
        return await outbound.pull(url, limits=LIMITS, etag=etag)


async def _pull(context: Context, *, etag: str | None = None) -> PulledDocument | NotModified:
    url = context.merchant.options.catalog_url
    if url is None:
        raise Skipped("Give the address of your catalog with --catalog https://…")
    sent = f"GET {without_credentials(url)}" + (f"\nIf-None-Match: {etag}" if etag else "")
    began = monotonic()
    try:
        pulled = await pull(url, etag=etag)
    except RequestFailed as failure:
        context.record(sent, failure.message, began)
        raise Failed(failure.message) from None
    context.record(sent, _shown(pulled), began)
    return pulled


def _shown(pulled: PulledDocument | NotModified) -> str:
    if isinstance(pulled, NotModified):
        return "304"
    size = f"{pulled.raw_size:,} bytes ({pulled.encoding}), {len(pulled.body):,} decoded"
    return f"200\nETag: {pulled.etag}\n\n{size}"


async def _pull_whole(context: Context) -> PulledDocument:
    pulled = await _pull(context)
    assert isinstance(pulled, PulledDocument), "no ETag was sent"
    return pulled


def _first(context: Context, *, needs_etag: bool = True) -> PulledDocument:
    """Return the catalog as the first check pulled it."""
    pulled = context.merchant.pulled[-1]
    if needs_etag and pulled.etag is None:
        raise Skipped("The catalog has no ETag. With one, an unchanged catalog need not be sent again.")
    return pulled


async def _served(context: Context) -> str:
    pulled = await _pull_whole(context)
    context.merchant.pulled.append(pulled)
    return f"{pulled.raw_size:,} bytes in {pulled.elapsed_ms} ms"


async def _valid(context: Context) -> str:
    pulled = _first(context, needs_etag=False)
    context.record(f"GET {without_credentials(pulled.final_url)}", _shown(pulled), monotonic())
    report, _ = await asyncio.to_thread(lint, pulled.body, default_currency="USD", max_bytes=LIMITS.max_raw)
    if report.errors:
        count, first = count_of(len(report.errors), "error"), report.errors[0]
        raise Failed(f"It has {count}; the first, at {first.path or 'the start'}: {first.message}")
    assert report.summary is not None, "a catalog without errors has a summary"
    return f"{count_of(report.summary.items, 'item')}, {count_of(len(report.warnings), 'warning')}"


async def _not_modified(context: Context) -> str:
    again = await _pull(context, etag=_first(context).etag)
    if not isinstance(again, NotModified):
        raise Failed("It sent the catalog again, although If-None-Match had its ETag.")
    return "304"


async def _etag_of_content(context: Context) -> str:
    first, again = _first(context), await _pull_whole(context)
    is_same = first.body == again.body
    if (first.etag == again.etag) is not is_same:
        raise Failed(
            f"The ETags are {first.etag} and {again.etag}, for {'the same' if is_same else 'other'} bytes."
        )
    return "one ETag, the same bytes"


CATALOG: Final[Mapping[str, Run[Context]]] = {
    "served": _served,
    "valid": _valid,
    "not-modified": _not_modified,
    "etag-of-content": _etag_of_content,
}

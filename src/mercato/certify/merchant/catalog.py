"""Whether the merchant's catalog can be pulled, and would be taken."""

import asyncio
from time import monotonic
from typing import Final

from mercato.catalog.lint import lint
from mercato.certify.merchant.bench import Bench
from mercato.certify.model import Failed, Skipped
from mercato.certify.shown import address
from mercato.certify.suite import Group
from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.client import Outbound
from mercato.outbound.results import NotModified, Pulled, PullLimits, RequestFailed
from mercato.plurals import count_of

SERVED: Final = "merchant.catalog.served"

LIMITS: Final = PullLimits(waits=())

group: Final = Group[Bench](
    "merchant.catalog",
    heading="Catalog: pulled, valid, and cheap to ask for",
    section="Decisions 4, 5",
    needs=SERVED,
)

_NO_URL: Final = "Give the address of your catalog with --catalog https://…"


async def _pull(bench: Bench, *, etag: str | None = None) -> Pulled | NotModified:
    url = bench.of.catalog_url
    if url is None:
        raise Skipped(_NO_URL)
    sent = f"GET {address(url)}" + (f"\nIf-None-Match: {etag}" if etag else "")
    began = monotonic()
    try:
        async with Outbound(AddressPolicy(allow_private=True)) as outbound:
            pulled = await outbound.pull(url, limits=LIMITS, etag=etag)
    except RequestFailed as failure:
        bench.say(sent, failure.message, began)
        raise Failed(failure.message) from None
    bench.say(sent, _told(pulled), began)
    return pulled


def _told(pulled: Pulled | NotModified) -> str:
    if isinstance(pulled, NotModified):
        return "304"
    return f"200\nETag: {pulled.etag}\n\n{pulled.raw_size:,} bytes ({pulled.encoding}), {len(pulled.body):,} decoded"


async def _whole(bench: Bench) -> Pulled:
    pulled = await _pull(bench)
    assert isinstance(pulled, Pulled), "nothing was said to be known"
    return pulled


@group.check(
    "served",
    "The catalog can be pulled",
    needs="",
    proves="the service finds the catalog at its URL, within 30 s and 32 MiB",
    advice="Serve the document with 200 to a GET without cookies, compressed if it is large; `mercato catalog lint` "
    "pulls it in the same way.",
)
async def served(bench: Bench) -> str:
    """Pull it."""
    pulled = await _whole(bench)
    bench.of.pulled.append(pulled)
    return f"{pulled.raw_size:,} bytes in {pulled.elapsed_ms} ms"


@group.check(
    "valid",
    "The catalog would be taken",
    proves="a store that registers with it goes live",
    advice="See every error with its line: mercato catalog lint URL",
)
async def valid(bench: Bench) -> str:
    """Look at it as an ingest does."""
    pulled = bench.of.pulled[-1]
    bench.say(f"GET {address(pulled.final_url)}", _told(pulled), monotonic())
    report, _ = await asyncio.to_thread(lint, pulled.body, default_currency="USD", most_bytes=LIMITS.max_raw)
    if report.errors:
        first = report.errors[0]
        raise Failed(
            f"{count_of(len(report.errors), 'error')}; the first at {first.path or 'the beginning'}: {first.message}"
        )
    assert report.summary is not None, "what has no errors has been counted"
    return f"{count_of(report.summary.items, 'item')}, {count_of(len(report.warnings), 'warning')}"


@group.check(
    "not-modified",
    "An unchanged catalog is answered with 304",
    proves="asking whether anything changed costs nothing",
    advice="Send an ETag with the document, and 304 without a body when If-None-Match names it.",
)
async def not_modified(bench: Bench) -> str:
    """Pull it again with its ETag."""
    first = bench.of.pulled[-1]
    if first.etag is None:
        raise Skipped("It has no ETag. With one, an unchanged catalog need not be sent again.")
    again = await _pull(bench, etag=first.etag)
    if not isinstance(again, NotModified):
        raise Failed("It was sent again, though its ETag was named.")
    return "304"


@group.check(
    "etag-of-content",
    "An ETag stands for one content",
    proves="a changed catalog is not taken for an old one",
    advice="Make the ETag of the document's bytes, a hash of them for example, and not of the hour or the server.",
)
async def etag_of_content(bench: Bench) -> str:
    """Pull it twice and compare."""
    first, again = bench.of.pulled[-1], await _whole(bench)
    if first.etag is None:
        raise Skipped("It has no ETag. With one, an unchanged catalog need not be sent again.")
    if (first.etag == again.etag) is not (first.body == again.body):
        raise Failed(
            f"{first.etag} and {again.etag}, for {'the same' if first.body == again.body else 'other'} bytes."
        )
    return "one ETag, the same bytes"

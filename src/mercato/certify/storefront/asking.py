"""What a storefront's requests are like: who asks, for what, and how often."""

from typing import Final

from mercato.certify.model import Failed
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.buying import PLACED
from mercato.certify.storefront.looking import after, bought
from mercato.certify.storefront.network import Call
from mercato.certify.suite import Group
from mercato.plurals import count_of

_READ: Final = ("GET", "HEAD")

group: Final = Group[Bench](
    "storefront.request",
    heading="Requests: as the service reads them",
    section="Specification 5; decisions 1",
    needs=PLACED,
)


@group.check(
    "bearer",
    "Every request carries the key",
    section="Specification 5.2",
    proves="the service knows who asks",
    advice="Send `Authorization: Bearer KEY` with every request.",
)
async def bearer(bench: Bench) -> str:
    """Look at the headers."""
    calls = (await bench.played("plain")).calls
    bad = [one for one in calls if one.status == 401]  # noqa: PLR2004  # unauthenticated
    if bad:
        bench.show(bad)
        raise Failed(f"{len(bad)} of {len(calls)} requests had no key, or not the one that was given.")
    return count_of(len(calls), "request")


@group.check(
    "key-not-in-url",
    "The key stands in no URL and no body",
    section="Specification 5.2",
    proves="logs and proxies do not learn the key",
    advice="Send the key in the Authorization header alone.",
)
async def key_not_in_url(bench: Bench) -> str:
    """Look for the key."""
    played = await bench.played("plain")
    bad = [one for one in played.calls if played.key in one.path or played.key.encode() in one.body]
    if bad:
        bench.show(bad)
        raise Failed("It does.")
    return "in the header alone"


@group.check(
    "known",
    "Only what exists is asked for",
    section="Specification 4; decisions 2",
    proves="paths and methods are those of the reference",
    advice="Compare paths and methods with docs/reference/operations.md.",
)
async def known(bench: Bench) -> str:
    """Look for 404 and 405."""
    calls = (await bench.played("plain")).calls
    bad = [one for one in calls if one.status in {404, 405}]
    if bad:
        bench.show(bad)
        raise Failed(f"{bad[0].method} {bad[0].path} was answered with {bad[0].status}.")
    return "every path exists"


@group.check(
    "well-formed",
    "Every body is what the operation reads",
    proves="members have their names, types and forms",
    advice="Read `errors` of the answer: it lists every fault with a pointer to its place.",
)
async def well_formed(bench: Bench) -> str:
    """Look for bodies that were refused."""
    calls = (await bench.played("plain")).calls
    bad = [one for one in calls if one.status in {400, 413, 422}]
    if bad:
        bench.show(bad)
        raise Failed(f"{bad[0].path} was answered with {bad[0].status}.")
    return "every body was read"


@group.check(
    "media-type",
    "Bodies are sent as JSON",
    proves="bodies say what they are",
    advice="Send `Content-Type: application/json` with every body.",
)
async def media_type(bench: Bench) -> str:
    """Look at the content types of bodies."""
    calls = [one for one in (await bench.played("plain")).calls if one.body and one.method not in _READ]
    bad = [one for one in calls if not _is_json(one)]
    if bad:
        bench.show(bad)
        raise Failed(f"{bad[0].path} came as {bad[0].headers.get('content-type', 'nothing')}.")
    return f"{len(calls)} bodies"


group.add(
    "later-version",
    "Members that are new are passed over",
    run=after("later", bought),
    section="Decisions 11",
    proves="the service can add to what it answers",
    advice="Read the members that you know and pass over all others: new ones may come at any time.",
)


@group.check(
    "follow-pace",
    "An order is not asked for too often",
    section="Decisions 11",
    proves="following orders leaves the limits of requests alone",
    advice="Ask every few seconds, or better: register an event URL, and ask only when nothing comes.",
)
async def follow_pace(bench: Bench) -> str:
    """Count the looks at an order in any second."""
    calls = (await bench.played("plain")).of("order", "timeline")
    for first, call in enumerate(calls):
        near = [one for one in calls[first:] if one.began - call.began < 1.0]
        if len(near) > 16:  # noqa: PLR2004  # 1,000 reads a minute
            bench.show(near)
            raise Failed(f"{len(near)} requests in a second; 1,000 in a minute are allowed.")
    return count_of(len(calls), "request") if calls else "it was not asked for"


def _is_json(call: Call) -> bool:
    return call.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"

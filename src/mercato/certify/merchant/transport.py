"""What a merchant's server does with HTTP that is unusual, or no webhook at all."""

from typing import Final
from urllib.parse import urlsplit

from mercato.certify.merchant import judging
from mercato.certify.merchant.bench import PLACE, VALIDATE, Bench
from mercato.certify.merchant.questions import ACCEPTED as AGREED
from mercato.certify.merchant.signatures import ACCEPTED as BELIEVED
from mercato.certify.model import Failed, Skipped
from mercato.certify.suite import Group

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

group: Final = Group[Bench](
    "merchant.transport",
    heading="Transport: what else a server meets",
    section="Decisions 9",
    needs=BELIEVED,
)

_FOUR: Final = "Catch what a parser raises, and answer 400: a 5xx is taken for an outage, and tried again."


@group.check(
    "https",
    "The webhook URL is https",
    proves="orders and customers' names are not sent in the clear",
    advice="Register an https URL: http is called by no service that is not on the same machine.",
)
async def https(bench: Bench) -> str:
    """Look at the URL."""
    parts = urlsplit(bench.of.webhook_url)
    if parts.hostname in LOOPBACK:
        raise Skipped("On this machine http is as good. Register an https URL for the network.")
    if parts.scheme != "https":
        raise Failed("It is http.")
    return "https"


@group.check(
    "charset",
    "A charset beside the content type is fine",
    needs=AGREED,
    proves="the media type is read as a media type",
    advice="Compare the media type without its parameters: `application/json; charset=utf-8` is JSON.",
)
async def charset(bench: Bench) -> str:
    """Send the content type with a parameter."""
    draft = bench.plain()
    change = {"Content-Type": "application/json; charset=utf-8"}
    judging.agreed(draft, await bench.send(bench.question(draft).but(change=change)))
    return "agreed"


@group.check(
    "header-case",
    "Header names in any case are fine",
    needs=AGREED,
    proves="headers are looked up as HTTP has them",
    advice="Look headers up without regard to case: proxies and HTTP/2 change it.",
)
async def header_case(bench: Bench) -> str:
    """Send the names of headers in capitals."""
    draft = bench.plain()
    message = bench.question(draft)
    change: dict[str, str | None] = {name.upper(): text for name, text in bench.headers(message).items()}
    judging.agreed(draft, await bench.send(message.but(change=change)))
    return "agreed"


@group.check(
    "no-json",
    "A body that is no JSON is refused with a 4xx",
    proves="a parser's error is told, not suffered",
    advice=_FOUR,
)
async def no_json(bench: Bench) -> str:
    """Send half a document, rightly signed."""
    message = bench.question()
    return judging.client_error(await bench.send(message.but(body=message.body[: len(message.body) // 2])))


@group.check(
    "other-json",
    "JSON of another shape is refused with a 4xx",
    proves="what is not there is not reached for",
    advice=_FOUR,
)
async def other_json(bench: Bench) -> str:
    """Send a list, rightly signed."""
    return judging.client_error(await bench.send(bench.question().but(body=b"[1, null]")))


@group.check(
    "empty-body",
    "An empty body is refused with a 4xx",
    proves="nothing is not read as something",
    advice=_FOUR,
)
async def empty_body(bench: Bench) -> str:
    """Send nothing, rightly signed."""
    return judging.client_error(await bench.send(bench.question().but(body=b"")))


@group.check(
    "get",
    "A GET does not break it",
    proves="health checks and browsers do no harm",
    advice="Answer 405, or anything else below 500.",
)
async def get(bench: Bench) -> str:
    """GET where webhooks are posted."""
    return judging.no_crash(await bench.call("GET", VALIDATE, {}, None, seconds=bench.of.validate_seconds))


@group.check(
    "head",
    "A HEAD does not break it",
    proves="health checks do no harm",
    advice="Answer 405, or anything else below 500.",
)
async def head(bench: Bench) -> str:
    """HEAD where webhooks are posted."""
    return judging.no_crash(await bench.call("HEAD", PLACE, {}, None, seconds=bench.of.validate_seconds))

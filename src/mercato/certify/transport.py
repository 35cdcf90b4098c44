"""What a receiver's server does with HTTP that is unusual, or no webhook at all. For receivers of either side."""

from typing import Final
from urllib.parse import urlsplit

from mercato.certify.model import Failed, Skipped
from mercato.certify.sending import Sender
from mercato.certify.signatures import ACCEPTED
from mercato.certify.statuses import client_error, no_crash
from mercato.certify.suite import Group

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

transport: Final = Group[Sender](
    "transport",
    heading="Transport: what else a server meets",
    section="Decisions 9",
    needs=ACCEPTED,
)

_FOUR: Final = "Catch what a parser raises, and answer 400: a 5xx is taken for an outage, and tried again."


@transport.check(
    "https",
    "The URL is https",
    proves="orders and customers' names are not sent in the clear",
    advice="Register an https URL: http is called by no service that is not on the same machine.",
)
async def https(bench: Sender) -> str:
    """Look at the URL."""
    parts = urlsplit(bench.receiver.url)
    if parts.hostname in LOOPBACK:
        raise Skipped("On this machine http is as good. Register an https URL for the network.")
    if parts.scheme != "https":
        raise Failed("It is http.")
    return "https"


@transport.check(
    "charset",
    "A charset beside the content type is fine",
    proves="the media type is read as a media type",
    advice="Compare the media type without its parameters: `application/json; charset=utf-8` is JSON.",
)
async def charset(bench: Sender) -> str:
    """Send the content type with a parameter."""
    change = {"Content-Type": "application/json; charset=utf-8"}
    return bench.believed(await bench.send(bench.sample().but(change=change)))


@transport.check(
    "header-case",
    "Header names in any case are fine",
    proves="headers are looked up as HTTP has them",
    advice="Look headers up without regard to case: proxies and HTTP/2 change it.",
)
async def header_case(bench: Sender) -> str:
    """Send the names of headers in capitals."""
    message = bench.sample()
    change: dict[str, str | None] = {name.upper(): text for name, text in bench.headers(message).items()}
    return bench.believed(await bench.send(message.but(change=change)))


@transport.check(
    "no-json",
    "A body that is no JSON is refused with a 4xx",
    proves="a parser's error is told, not suffered",
    advice=_FOUR,
)
async def no_json(bench: Sender) -> str:
    """Send half a document, rightly signed."""
    message = bench.sample()
    return client_error(await bench.send(message.but(body=message.body[: len(message.body) // 2])))


@transport.check(
    "other-json",
    "JSON of another shape is refused with a 4xx",
    proves="what is not there is not reached for",
    advice=_FOUR,
)
async def other_json(bench: Sender) -> str:
    """Send a list, rightly signed."""
    return client_error(await bench.send(bench.sample().but(body=b"[1, null]")))


@transport.check(
    "empty-body",
    "An empty body is refused with a 4xx",
    proves="nothing is not read as something",
    advice=_FOUR,
)
async def empty_body(bench: Sender) -> str:
    """Send nothing, rightly signed."""
    return client_error(await bench.send(bench.sample().but(body=b"")))


@transport.check(
    "get",
    "A GET does not break it",
    proves="health checks and browsers do no harm",
    advice="Answer 405, or anything else below 500.",
)
async def get(bench: Sender) -> str:
    """GET where webhooks are posted."""
    return no_crash(await bench.call("GET", bench.sample().suffix, {}, None))


@transport.check(
    "head",
    "A HEAD does not break it",
    proves="health checks do no harm",
    advice="Answer 405, or anything else below 500.",
)
async def head(bench: Sender) -> str:
    """HEAD where webhooks are posted."""
    return no_crash(await bench.call("HEAD", bench.sample().suffix, {}, None))

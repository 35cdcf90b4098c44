"""Catalog pulls: success, redirects and retries, as decided."""

import datetime as dt
import gzip
import http
from collections.abc import Callable
from email.utils import format_datetime

import brotli
import msgspec
import pytest
from backports import zstd
from tests.outbound.conftest import PUBLIC, RecordedSleep
from tests.ports import free_port
from tests.servers import (
    Script,
    StubDns,
    by_path,
    drop,
    hang,
    in_turn,
    raw,
    redirect,
    reply,
    reset,
    self_signed,
    serve,
)

from mercato_contract import USER_AGENT
from mercato_outbound.client import Outbound
from mercato_outbound.guard import Address, AddressPolicy, AddressVerdict
from mercato_outbound.results import (
    Fault,
    NotModified,
    Options,
    PulledDocument,
    PullLimits,
    RequestFailed,
)

MENU = b'{"items": {}}'


async def pulled(outbound: Outbound, url: str, **options: object) -> PulledDocument:
    result = await outbound.pull(url, **options)  # type: ignore[arg-type]
    assert isinstance(result, PulledDocument)
    return result


async def failed(outbound: Outbound, url: str, **options: object) -> RequestFailed:
    with pytest.raises(RequestFailed) as failure:
        await outbound.pull(url, **options)  # type: ignore[arg-type]
    for hidden in (
        "127.0.0",
        "localhost",
        "inside.example",
        "aiohttp",
        "Errno",
        "Cannot",
        "ssl:",
        "object at",
    ):
        assert hidden not in failure.value.message
    assert failure.value.message.endswith(".")
    return failure.value


def test_the_limits_are_those_of_the_contract() -> None:
    assert msgspec.structs.asdict(PullLimits()) == {
        "subject": "URL",
        "connect": 5.0,
        "total": 30.0,
        "max_raw": 32 * 1024 * 1024,
        "max_decoded": 128 * 1024 * 1024,
        "redirects": 3,
        "waits": (0.5, 1.0, 2.0),
    }


# --- a document ----------------------------------------------------------------------------------------


async def test_a_document_is_pulled_with_its_etag_and_figures(outbound: Outbound) -> None:
    async with serve(reply(200, MENU, etag='"v1"', content_type="application/json")) as server:
        got = await pulled(outbound, server.at("menu.example") + "/a%2Fb?key=%2F#top")
    assert (got.body, got.etag, got.content_type) == (MENU, '"v1"', "application/json")
    assert (got.encoding, got.raw_size, got.redirects) == ("identity", len(MENU), 0)
    assert got.final_url == server.at("menu.example") + "/a%2Fb?key=%2F"
    assert got.elapsed_ms >= 0
    assert server.requests[0].path == "/a%2Fb?key=%2F"


async def test_a_pull_sends_its_user_agent_and_what_it_accepts_and_nothing_else(outbound: Outbound) -> None:
    async with serve(reply(200, MENU, set_cookie="a=1")) as server:
        await pulled(outbound, server.url)
        await pulled(outbound, server.url)
    for request in server.requests:
        assert request.headers == {
            "host": f"127.0.0.1:{server.port}",
            "accept": "application/json, */*;q=0.5",
            "accept-encoding": "zstd, br, gzip",
            "user-agent": USER_AGENT,
        }


@pytest.mark.parametrize(
    ("coding", "raw_body"),
    [("gzip", gzip.compress(MENU, mtime=0)), ("zstd", zstd.compress(MENU)), ("br", brotli.compress(MENU))],
    ids=["gzip", "zstd", "br"],
)
async def test_a_compressed_document_is_decompressed(
    outbound: Outbound, coding: str, raw_body: bytes
) -> None:
    async with serve(reply(200, raw_body, content_encoding=coding)) as server:
        got = await pulled(outbound, server.url)
    assert (got.body, got.encoding, got.raw_size) == (MENU, coding, len(raw_body))


async def test_a_chunked_document_is_reassembled(outbound: Outbound) -> None:
    chunks = b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"ite\r\n8\r\nms": {}}\r\n0\r\n\r\n'
    async with serve(raw(chunks)) as server:
        assert (await pulled(outbound, server.url)).body == MENU


async def test_a_document_that_ends_with_its_connection_is_complete(outbound: Outbound) -> None:
    async with serve(raw(b"HTTP/1.1 200 OK\r\n\r\n", MENU)) as server:
        assert (await pulled(outbound, server.url)).body == MENU


async def test_the_proxy_of_the_environment_is_not_used(
    outbound: Outbound, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(reply(200, b"from the proxy")) as proxy, serve(reply(200, MENU)) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert (await pulled(outbound, server.url)).body == MENU
    assert proxy.connections == 0


# --- not modified --------------------------------------------------------------------------------------


async def test_a_document_that_still_has_its_etag_is_not_modified(outbound: Outbound) -> None:
    async with serve(reply(304)) as server:
        result = await outbound.pull(server.url, etag='W/"v1"')
    assert isinstance(result, NotModified)
    assert server.requests[0].headers["if-none-match"] == 'W/"v1"'


async def test_an_unsolicited_304_is_a_failure(outbound: Outbound) -> None:
    async with serve(reply(304)) as server:
        failure = await failed(outbound, server.url)
    assert (failure.fault, failure.status, failure.retryable) == (Fault.STATUS, 304, False)
    assert "304 Not Modified" in failure.message


@pytest.mark.parametrize("etag", ["v1", "", '"a"\r\nX: y', '"a" , "b"', '"' + "x" * 300 + '"', "*"])
async def test_a_malformed_etag_is_neither_kept_nor_sent(outbound: Outbound, etag: str) -> None:
    async with serve(reply(200, MENU, etag=etag.split("\r\n", maxsplit=1)[0] + "x")) as server:
        got = await pulled(outbound, server.url, etag=etag)
    assert got.etag is None
    assert "if-none-match" not in server.requests[0].headers


# --- redirects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed(outbound: Outbound, status: int) -> None:
    scripts = {"/a": redirect("/b?x=%2F", status), "/b?x=%2F": reply(200, MENU)}
    async with serve(by_path(scripts)) as server:
        got = await pulled(outbound, server.url + "/a")
    assert (got.body, got.redirects, got.final_url) == (MENU, 1, server.url + "/b?x=%2F")


async def test_three_redirects_are_followed_and_a_fourth_is_not(outbound: Outbound) -> None:
    steps = {f"/{n}": redirect(f"/{n + 1}") for n in range(4)} | {"/4": reply(200, MENU)}
    async with serve(by_path(steps)) as server:
        assert (await pulled(outbound, server.url + "/1")).redirects == 3
        failure = await failed(outbound, server.url + "/0")
    assert failure.fault is Fault.REDIRECT
    assert "more than 3 times" in failure.message


async def test_a_redirect_loop_ends_as_soon_as_it_closes(outbound: Outbound) -> None:
    async with serve(by_path({"/a": redirect("/b"), "/b": redirect("/a")})) as server:
        failure = await failed(outbound, server.url + "/a")
    assert failure.fault is Fault.REDIRECT
    assert "circle" in failure.message
    assert len(server.requests) == 2


@pytest.mark.parametrize("name", ["127.0.0.2", "inside.example", "::ffff:127.0.0.2"])
async def test_a_redirect_from_a_public_host_to_loopback_reaches_nothing(
    outbound: Outbound, name: str
) -> None:
    async with (
        serve(reply(200, b"secret"), host="127.0.0.2") as inside,
        serve(redirect(inside.at(name))) as server,
    ):
        failure = await failed(outbound, server.url)
        assert inside.connections == 0
    assert failure.fault is Fault.REFUSED_ADDRESS
    assert "not public" in failure.message
    assert not failure.retryable


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://menu.example/_x",
        "ftp://menu.example/",
        "data:application/json,{}",
        "http://user:secret@menu.example/",
        "http://menu.example:0/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "//127.0.0.2/",
        "http://[::1/",
        "http://menu.example\\@127.0.0.2/",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
@pytest.mark.parametrize("status", [301, 307])
async def test_every_hop_is_checked_like_the_first_url(
    outbound: Outbound, location: str, status: int
) -> None:
    async with serve(redirect(location, status)) as server:
        failure = await failed(outbound, server.url)
    assert failure.fault is Fault.REFUSED_ADDRESS
    assert "redirects to a URL that" in failure.message
    assert len(server.requests) == 1


async def test_a_failure_behind_a_redirect_says_so(outbound: Outbound) -> None:
    scripts = {
        "/a": redirect("http://nowhere.example/"),
        "/b": redirect("/c"),
        "/d": redirect("http://inside.example/"),
    }
    async with serve(by_path(scripts)) as server:
        for path, fault in (("/a", Fault.DNS), ("/b", Fault.STATUS), ("/d", Fault.REFUSED_ADDRESS)):
            failure = await failed(outbound, server.url + path, limits=PullLimits(subject="catalog URL"))
            assert failure.fault is fault
            assert "address to which the catalog URL redirects" in failure.message


async def test_a_redirect_without_a_location_is_a_failure(outbound: Outbound) -> None:
    async with serve(reply(302)) as server:
        failure = await failed(outbound, server.url)
    assert failure.fault is Fault.REDIRECT


async def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    tls = self_signed("menu.example")
    dns = StubDns({"menu.example": [["127.0.0.1"]]})
    async with (
        serve(reply(200, MENU)) as plain,
        serve(
            by_path({"/down": redirect(plain.url), "/a": redirect("/b"), "/b": reply(200, MENU)}),
            tls=tls.server,
        ) as secure,
        serve(redirect(secure.at("menu.example") + "/a")) as up,
        Outbound(Options(policy=PUBLIC, resolver=dns, tls=tls.client)) as outbound,
    ):
        failure = await failed(outbound, secure.at("menu.example") + "/down")
        assert plain.connections == 0
        assert (await pulled(outbound, up.url)).redirects == 2
    assert failure.fault is Fault.REDIRECT
    assert "https to http" in failure.message


# --- addresses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://menu.example/",
        "http://user:secret@menu.example/",
        "http://menu.example:0/",
        "http://127.0.0.2/",
        "http://[::ffff:127.0.0.2]/",
        "http://[64:ff9b::7f00:2]/",
        "http://2130706434/",
        "http://0177.0.0.2/",
        "http://0x7f.2/",
        "http://inside.example/",
        "http://mixed.example/",
        "http://six.example/",
    ],
)
async def test_an_internal_address_is_never_requested(url: str, sleeps: RecordedSleep) -> None:
    answers = {
        "inside.example": [["127.0.0.2"]],
        "mixed.example": [["127.0.0.1", "127.0.0.2"]],
        "six.example": [["::ffff:127.0.0.2"]],
    }
    async with Outbound(Options(policy=PUBLIC, resolver=StubDns(answers), sleep=sleeps)) as outbound:
        failure = await failed(outbound, url)
    assert failure.fault is Fault.REFUSED_ADDRESS
    assert (failure.retryable, sleeps.seconds) == (False, [])
    assert "secret" not in failure.message


async def test_a_name_that_changes_its_address_is_checked_each_time(sleeps: RecordedSleep) -> None:
    dns = StubDns({"rebind.example": [["127.0.0.1"], ["127.0.0.2"]]})
    async with (
        serve(reply(200, MENU, connection="close")) as server,
        Outbound(Options(policy=PUBLIC, resolver=dns, sleep=sleeps, dns_seconds=0)) as outbound,
    ):
        await pulled(outbound, server.at("rebind.example"))
        failure = await failed(outbound, server.at("rebind.example"))
    assert failure.fault is Fault.REFUSED_ADDRESS
    assert len(dns.asked) == 2
    assert len(server.requests) == 1


async def test_check_and_connection_use_the_same_lookup_against_rebinding(
    sleeps: RecordedSleep,
) -> None:
    dns = StubDns({"rebind.example": [["127.0.0.1"], ["127.0.0.2"]]})
    async with (
        serve(reply(200, MENU)) as server,
        Outbound(Options(policy=PUBLIC, resolver=dns, dns_seconds=0)) as outbound,
    ):
        await pulled(outbound, server.at("rebind.example"))
    assert dns.asked == ["rebind.example"]


@pytest.mark.parametrize("name", ["127.0.0.1", "menu.example"])
async def test_the_final_check_is_made_with_the_socket(name: str) -> None:
    verdicts = iter([AddressVerdict.ALLOWED])  # for the URL or the resolver; the socket's maker asks second

    class Forgetful(AddressPolicy, frozen=True):
        def verdict(self, ip: Address | str) -> AddressVerdict:
            return next(verdicts, AddressVerdict.LOOPBACK)

    dns = StubDns({"menu.example": [["127.0.0.1"]]})
    async with (
        serve(reply(200, MENU)) as server,
        Outbound(Options(policy=Forgetful(), resolver=dns)) as outbound,
    ):
        failure = await failed(outbound, server.at(name))
        assert server.connections == 0
    assert failure.fault is Fault.REFUSED_ADDRESS


async def test_development_may_pull_from_loopback() -> None:
    async with (
        serve(reply(200, MENU)) as server,
        Outbound(Options(policy=AddressPolicy(allow_private=True))) as outbound,
    ):
        assert (await pulled(outbound, server.at("localhost"))).body == MENU


async def test_without_development_loopback_is_refused_by_any_name() -> None:
    async with serve(reply(200, MENU)) as server, Outbound(Options(policy=AddressPolicy())) as outbound:
        for url in (server.url, server.at("localhost")):
            assert (await failed(outbound, url)).fault is Fault.REFUSED_ADDRESS
        assert server.connections == 0


# --- failures and retries ------------------------------------------------------------------------------


async def test_500_three_times_and_then_200_succeeds(outbound: Outbound, sleeps: RecordedSleep) -> None:
    async with serve(in_turn(reply(500), reply(503), reply(429), reply(200, MENU))) as server:
        assert (await pulled(outbound, server.url)).body == MENU
    assert sleeps.seconds == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
async def test_repeated_500s_end_after_three_retries(
    outbound: Outbound, sleeps: RecordedSleep, status: int
) -> None:
    async with serve(reply(status)) as server:
        failure = await failed(outbound, server.url)
    assert len(server.requests) == 4
    assert sleeps.seconds == [0.5, 1.0, 2.0]
    assert (failure.fault, failure.status, failure.retryable) == (Fault.STATUS, status, True)
    assert f" answered {status}" in failure.message
    assert "(4 attempts)" in failure.message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 410, 451, 499])
async def test_any_other_4xx_fails_at_once(outbound: Outbound, sleeps: RecordedSleep, status: int) -> None:
    async with serve(reply(status, b"see http://10.0.0.1/internal")) as server:
        failure = await failed(outbound, server.url)
    assert (len(server.requests), sleeps.seconds) == (1, [])
    assert (failure.status, failure.retryable) == (status, False)
    assert "10.0.0.1" not in failure.message
    if status in {s.value for s in http.HTTPStatus}:
        assert http.HTTPStatus(status).phrase in failure.message


@pytest.mark.parametrize("status", [201, 202, 204, 206, 300, 305])
async def test_only_200_returns_a_document(outbound: Outbound, status: int) -> None:
    async with serve(reply(status, b"" if status == 204 else MENU)) as server:
        failure = await failed(outbound, server.url)
    assert (failure.fault, failure.status) == (Fault.STATUS, status)


async def test_retry_after_extends_the_wait(outbound: Outbound, sleeps: RecordedSleep) -> None:
    async with serve(
        in_turn(reply(503, b"", retry_after=7), reply(429, b"", retry_after=0), reply(200, MENU))
    ) as server:
        await pulled(outbound, server.url)
    assert sleeps.seconds == [7.0, 1.0]


async def test_retry_after_beyond_the_time_limit_ends_the_pull_at_once(
    outbound: Outbound, sleeps: RecordedSleep
) -> None:
    async with serve(reply(429, b"", retry_after=31)) as server:
        failure = await failed(outbound, server.url)
    assert (len(server.requests), sleeps.seconds) == (1, [])
    assert (failure.status, failure.retry_after, failure.retryable) == (429, 31.0, True)


async def test_retry_after_may_be_a_date(sleeps: RecordedSleep) -> None:
    now = dt.datetime(2026, 1, 31, 12, 0, 0, tzinfo=dt.UTC)
    later = format_datetime(now + dt.timedelta(seconds=9), usegmt=True)
    script = in_turn(
        reply(503, b"", retry_after=later), reply(503, b"", retry_after="soon"), reply(200, MENU)
    )
    async with (
        serve(script) as server,
        Outbound(Options(policy=PUBLIC, clock=lambda: now, sleep=sleeps)) as outbound,
    ):
        await pulled(outbound, server.url)
    assert sleeps.seconds == [9.0, 1.0]


async def test_a_retry_starts_at_the_url_itself_and_may_be_redirected_elsewhere(outbound: Outbound) -> None:
    scripts = {
        "/a": in_turn(redirect("/down"), redirect("/up")),
        "/down": reply(500),
        "/up": reply(200, MENU),
    }
    async with serve(by_path(scripts)) as server:
        await pulled(outbound, server.url + "/a")
    assert [request.path for request in server.requests] == ["/a", "/down", "/a", "/up"]


async def test_a_refused_connection_is_retried_and_says_what_to_check(
    outbound: Outbound, sleeps: RecordedSleep
) -> None:
    failure = await failed(outbound, f"http://127.0.0.1:{free_port()}/")
    assert (failure.fault, failure.retryable) == (Fault.CONNECT, True)
    assert "refused the connection" in failure.message
    assert sleeps.seconds == [0.5, 1.0, 2.0]


async def test_an_unknown_host_name_is_retried_and_says_what_to_check(
    outbound: Outbound, sleeps: RecordedSleep
) -> None:
    failure = await failed(outbound, "http://nowhere.example/")
    assert (failure.fault, failure.retryable) == (Fault.DNS, True)
    assert "DNS" in failure.message
    assert sleeps.seconds == [0.5, 1.0, 2.0]


async def test_a_refused_name_is_resolved_once(sleeps: RecordedSleep) -> None:
    dns = StubDns({"inside.example": [["10.0.0.1"]]})
    async with Outbound(Options(policy=PUBLIC, resolver=dns, sleep=sleeps, dns_seconds=0)) as outbound:
        await failed(outbound, "http://inside.example/")
    assert dns.asked == ["inside.example"]


@pytest.mark.parametrize("leave", [drop, reset])
async def test_a_server_that_closes_without_answering_is_retried(
    outbound: Outbound, sleeps: RecordedSleep, leave: Callable[[], Script]
) -> None:
    # Twice each time: only a new connection tells whether the kept connection or the server had died.
    async with serve(in_turn(*[leave()] * 4, reply(200, MENU))) as server:
        assert (await pulled(outbound, server.url)).body == MENU
    assert sleeps.seconds == [0.5, 1.0]


@pytest.mark.parametrize("leave", [drop, reset])
async def test_a_server_that_always_closes_without_answering_is_given_up(
    outbound: Outbound, sleeps: RecordedSleep, leave: Callable[[], Script]
) -> None:
    async with serve(leave()) as server:
        failure = await failed(outbound, server.url)
    assert (failure.fault, failure.retryable) == (Fault.PROTOCOL, True)
    assert "closed the connection without answering" in failure.message
    assert sleeps.seconds == [0.5, 1.0, 2.0]
    assert len(server.requests) == 8


async def test_the_last_failure_is_reported_when_no_time_is_left_for_another_attempt(
    outbound: Outbound,
) -> None:
    async with serve(reply(500)) as server:
        failure = await failed(outbound, server.url, limits=PullLimits(total=5.0, waits=(6.0,)))
    assert (failure.fault, failure.status) == (Fault.STATUS, 500)
    assert len(server.requests) == 1


async def test_a_handshake_that_is_never_finished_is_given_up() -> None:
    tls = self_signed("menu.example")
    limits = PullLimits(connect=0.02, waits=())
    async with serve(hang()) as server, Outbound(Options(policy=PUBLIC, tls=tls.client)) as client:
        failure = await failed(client, server.url.replace("http:", "https:"), limits=limits)
    assert (failure.fault, failure.retryable) == (Fault.CONNECT, True)
    assert "within 0.02 seconds" in failure.message


# --- TLS -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "days", "trusted", "words"),
    [
        (["menu.example"], 1, False, "self-signed"),
        (["menu.example"], -1, True, "expired"),
        (["other.example"], 1, True, "another host name"),
    ],
)
async def test_an_invalid_certificate_is_explained(
    sleeps: RecordedSleep,
    names: list[str],
    days: int,
    trusted: bool,  # a column of the table
    words: str,
) -> None:
    tls = self_signed(*names, days=days)
    dns = StubDns({"menu.example": [["127.0.0.1"]]})
    async with (
        serve(reply(200, MENU), tls=tls.server) as server,
        Outbound(
            Options(policy=PUBLIC, resolver=dns, tls=tls.client if trusted else None, sleep=sleeps)
        ) as outbound,
    ):
        failure = await failed(outbound, server.at("menu.example"))
        assert server.requests == []
    assert (failure.fault, failure.retryable, sleeps.seconds) == (Fault.TLS, False, [])
    assert words in failure.message


async def test_a_server_that_speaks_no_tls_is_a_tls_failure(outbound: Outbound) -> None:
    async with serve(hang(), greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        failure = await failed(outbound, server.url.replace("http:", "https:"))
    assert failure.fault is Fault.TLS


async def test_a_trusted_certificate_is_accepted() -> None:
    tls = self_signed("menu.example")
    dns = StubDns({"menu.example": [["127.0.0.1"]]})
    async with (
        serve(reply(200, MENU), tls=tls.server) as server,
        Outbound(Options(policy=PUBLIC, resolver=dns, tls=tls.client)) as outbound,
    ):
        assert (await pulled(outbound, server.at("menu.example"))).body == MENU

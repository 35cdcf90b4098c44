"""The client with a faulty network or service."""

import asyncio
import copy
import gzip
import json
import pickle
import ssl
import threading
from typing import Any

import httpx
import pytest
from tests.client.awaited import KINDS, opened
from tests.ports import free_port
from tests.servers import (
    Peer,
    Request,
    Script,
    drip,
    drop,
    endless,
    hang,
    head,
    in_turn,
    raw,
    redirect,
    reply,
    reset,
    self_signed,
    serve,
)
from tests.waiting import lengthening, loop_timeout

from mercato_client import NEVER, AsyncClient, Client, errors, exchange, types

pytestmark = pytest.mark.parametrize("kind", KINDS)

Kind = type[Client | AsyncClient]

REFUND = types.AdjustOrderRequest(type=types.AdjustmentType.REFUND, amount="1.00", reason="Cold")
STATUS = reply(200, b'{"status": "online", "pauseReason": null, "resumeAt": null}')
ONLINE = types.StoreStatusUpdate(status="online")
ORDER: Any = types.PlaceOrderRequest(
    cart=types.Cart(
        catalog_set_id="44444444-4444-5444-8444-444444444444",  # type: ignore[arg-type]
        store_id="44444444-4444-5444-8444-444444444444",  # type: ignore[arg-type]
        line_items=[],
    ),
    client_context=types.ClientContext(ip="203.0.113.7", user_agent="shop"),
    fulfillment=types.PickupFulfillment(schedule_type=types.ScheduleType.ASAP),
)


def problem(status: int, code: str, **members: Any) -> Script:
    document = {"type": "about:blank", "title": "No", "status": status, "errorCode": code} | members
    return reply(status, json.dumps(document).encode(), content_type="application/problem+json")


AWAY = problem(503, "SERVICE_UNAVAILABLE", errorCategory="availability", retryable=True)


async def test_a_read_is_repeated_until_there_is_an_answer(kind: Kind):
    script = in_turn(AWAY, drop(), reply(502, b"<html>"), STATUS)
    async with serve(script) as server, opened(kind, server.url) as client:
        assert (await client.get_store_status("1")).status == "online"
    assert len(server.requests) == 4


async def test_attempts_are_bounded_and_the_last_refusal_is_raised(kind: Kind):
    async with serve(AWAY) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.ServerError) as away:
            await client.get_store_status("1")
    assert (len(server.requests), away.value.code) == (4, "SERVICE_UNAVAILABLE")


async def test_an_order_is_placed_again_with_the_same_key_and_bytes(kind: Kind):
    busy = problem(409, "REQUEST_IN_PROGRESS", retryable=True, errorCategory="conflict")
    no = problem(400, "CART_EMPTY", retryable=False, errorCategory="validation")
    async with serve(in_turn(reset(), AWAY, busy, no)) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.ValidationError) as refused:
            await client.place_order(ORDER)
    sent = {(request.headers["idempotency-key"], request.body) for request in server.requests}
    assert (len(server.requests), len(sent)) == (4, 1)
    assert refused.value.idempotency_key in {key for key, _ in sent}


async def test_an_order_is_cancelled_again_with_the_same_key_and_bytes(kind: Kind):
    no = problem(409, "CANCELLATION_REFUSED", retryable=False, errorCategory="conflict")
    async with serve(in_turn(reset(), AWAY, no)) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.ConflictError) as refused:
            await client.cancel_order("1", reason="CHANGED_MIND")
    sent = {(request.headers["idempotency-key"], request.body) for request in server.requests}
    assert (len(server.requests), len(sent)) == (3, 1)
    assert refused.value.idempotency_key in {key for key, _ in sent}


async def test_an_order_is_adjusted_again_with_the_same_key_and_bytes(kind: Kind):
    no = problem(409, "ORDER_CLOSED", retryable=False, errorCategory="conflict")
    async with serve(in_turn(reset(), AWAY, no)) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.ConflictError) as refused:
            await client.adjust_order("1", REFUND)
    sent = {(request.headers["idempotency-key"], request.body) for request in server.requests}
    assert (len(server.requests), len(sent)) == (3, 1)
    assert refused.value.idempotency_key in {key for key, _ in sent}


async def test_every_order_gets_a_key_of_its_own(kind: Kind):
    no = problem(400, "CART_EMPTY", retryable=False)
    async with serve(no) as server, opened(kind, server.url) as client:
        for _ in range(2):
            with pytest.raises(errors.ValidationError):
                await client.place_order(ORDER)
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 2


@pytest.mark.parametrize("script", [AWAY, drop(), reset()], ids=["503", "drop", "reset"])
async def test_a_write_without_a_key_is_sent_once_when_it_may_have_arrived(kind: Kind, script: Script):
    async with serve(script) as server, opened(kind, server.url) as client:
        with pytest.raises((errors.ServerError, errors.NoAnswerError)) as fault:
            await client.set_store_status("1", ONLINE)
    assert len(server.requests) == 1
    assert getattr(fault.value, "sent", True)


async def test_a_write_that_was_refused_for_its_rate_is_sent_again(kind: Kind):
    limited = problem(429, "RATE_LIMITED", retryable=True, retryAfter=0)
    async with serve(in_turn(limited, STATUS)) as server, opened(kind, server.url) as client:
        assert (await client.set_store_status("1", ONLINE)).status == "online"
    assert len(server.requests) == 2


async def test_a_payment_that_failed_is_not_tried_again_by_itself(kind: Kind):
    failed = problem(400, "PAYMENT_FAILED", errorCategory="payment", retryable=True)
    async with serve(failed) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.PaymentError):
            await client.place_order(ORDER)
    assert len(server.requests) == 1


async def test_no_request_takes_longer_than_its_timeout(kind: Kind):
    limited = problem(429, "RATE_LIMITED", retryable=True, retryAfter=3600)
    async with serve(limited) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.RateLimitError) as wait:
            await client.get_store("1")
    assert (len(server.requests), wait.value.retry_after) == (1, 3600)


async def test_without_a_server_the_error_names_the_address(kind: Kind):
    url = f"http://127.0.0.1:{free_port()}"
    async with opened(kind, url) as client:
        with pytest.raises(errors.NoAnswerError) as nobody:
            await client.set_store_status("1", ONLINE)
        with pytest.raises(errors.NoAnswerError):
            await client.wait_until_live("1")
    assert not nobody.value.sent
    assert url in str(nobody.value)
    assert "Is the service running" in str(nobody.value)


async def test_an_address_with_https_of_a_service_that_speaks_http_is_named_as_that(kind: Kind):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with opened(kind, url) as client:
            with pytest.raises(errors.NoAnswerError) as refused:
                await client.set_store_status("1", ONLINE)
    said = f"{url} can't be reached (it doesn't speak https; its address may begin with http:)"
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "script",
    [hang(), hang(head(content_length=9)), drip(bytes(1000), pause=0.05), endless(b"x", pause=0.05)],
    ids=["nothing", "half", "drip", "endless"],
)
async def test_an_answer_that_takes_too_long_times_out(kind: Kind, script: Script):
    async with serve(script) as server:
        for seconds in lengthening(0.5):
            async with opened(kind, server.url, timeout=seconds) as client:
                with pytest.raises(errors.NoAnswerError) as late:
                    await client.set_store_status("1", ONLINE)
            if late.value.sent:
                break
    assert late.value.sent
    assert "timed out" in str(late.value)


async def test_an_answer_whose_head_drips_is_given_up_in_time_by_an_async_client(kind: Kind):
    if kind is Client:
        pytest.skip("httpx bounds each wait for bytes of a head, which a sync client can't end from outside")
    script = endless(b"x", start=b"HTTP/1.1 200 OK\r\nX-Drip: ", pause=0.05)
    async with serve(script) as server:
        for seconds in lengthening(0.5):
            async with opened(kind, server.url, timeout=seconds) as client, loop_timeout(seconds + 5):
                with pytest.raises(errors.NoAnswerError, match="timed out"):
                    await client.set_store_status("1", ONLINE)
            if server.requests:
                break
    assert server.requests


async def test_a_wait_ends_at_its_deadline_though_the_service_hangs(kind: Kind):
    pending = {"onboardingId": "44444444-4444-5444-8444-444444444444", "partnerStoreId": "1", "errors": []}
    pending |= {"status": "pending_catalog", "createdAt": "2026-01-31T18:30:00.000Z"}
    for seconds in lengthening(1.0):
        script = in_turn(reply(200, json.dumps(pending).encode()), hang())
        async with serve(script) as server, opened(kind, server.url, timeout=3600) as client:
            with pytest.raises((errors.DeadlineError, errors.NoAnswerError)) as late:
                await client.wait_until_live("1", timeout=seconds)
        if len(server.requests) > 1:
            break
    assert isinstance(late.value, errors.DeadlineError)
    assert late.value.last.status == "pending_catalog"


@pytest.mark.parametrize(
    "script",
    [reply(200, b"<html>hello</html>"), reply(200, b'{"status": 7}'), reply(200, b"\xff")],
    ids=["html", "other", "latin"],
)
async def test_an_answer_of_another_server_is_recognised(kind: Kind, script: Script):
    async with serve(script) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.UnreadableError, match="Is the URL right"):
            await client.get_store_status("1")
    assert len(server.requests) == 1


async def test_a_refusal_that_is_not_a_problem_document_is_shown_as_it_is(kind: Kind):
    page = reply(404, b"<h1>nginx</h1>", x_request_id="r-1")
    async with serve(page) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.NotFoundError) as refused:
            await client.get_store("1")
    assert (refused.value.code, refused.value.request_id) == ("HTTP_404", "r-1")
    assert "nginx" in str(refused.value)


async def test_redirects_are_not_followed_with_the_key(kind: Kind):
    async with (
        serve(STATUS) as other,
        serve(redirect(other.url)) as server,
        opened(kind, server.url) as client,
    ):
        with pytest.raises(errors.ProblemError) as moved:
            await client.get_store("1")
    assert (moved.value.code, other.requests) == ("HTTP_302", [])


async def test_gzip_is_requested_and_decompressed(kind: Kind):
    packed = gzip.compress(b'{"status": "paused", "pauseReason": null, "resumeAt": null}')
    async with (
        serve(reply(200, packed, content_encoding="gzip")) as server,
        opened(kind, server.url) as client,
    ):
        assert (await client.get_store_status("1")).status == "paused"
    assert server.requests[0].headers["accept-encoding"] == "gzip"


async def test_a_body_that_is_cut_off_or_too_long_is_refused(kind: Kind, monkeypatch: pytest.MonkeyPatch):
    packed = gzip.compress(b'{"status": "paused", "pauseReason": null, "resumeAt": null}')
    cut = reply(200, packed[:-9], content_encoding="gzip")
    async with serve(cut) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.UnreadableError, match="cut off"):
            await client.get_store_status("1")
        monkeypatch.setattr(exchange, "MAX_BYTES", 10)
        with pytest.raises(errors.UnreadableError, match="too long"):
            await client.get_store_status("1")


async def test_connections_are_reused_unless_they_were_closed(kind: Kind):
    async def closing(request: Any, peer: Any) -> None:
        await STATUS(request, peer)
        peer.close()

    async with serve(in_turn(STATUS, closing, STATUS)) as server, opened(kind, server.url) as client:
        await client.set_store_status("1", ONLINE)
        await client.set_store_status("1", ONLINE)
        # The server's close must have arrived, as it has after any real pause.
        await asyncio.sleep(0.2)
        await client.set_store_status("1", ONLINE)
    assert [request.connection for request in server.requests] == [0, 0, 1]


async def test_ids_and_texts_from_outside_stay_where_they_belong(kind: Kind):
    async with serve(STATUS) as server, opened(kind, server.url + "/base/", "k") as client:
        await client.get_store_status("../x?y#z/ü")
        with pytest.raises(errors.ConfigurationError):
            await client.place_order(ORDER, idempotency_key="a\r\nX-Other: b")
    assert [one.path for one in server.requests] == [
        "/base/v1/commerce/stores/..%2Fx%3Fy%23z%2F%C3%BC/status"
    ]
    assert server.requests[0].headers["authorization"] == "Bearer k"
    assert server.requests[0].headers["user-agent"].startswith("Mercato/")


@pytest.mark.parametrize("given", ["", ".", "..", "a\x00b", "\ud800", None])
async def test_an_id_that_would_make_another_path_is_refused_before_anything_is_sent(kind: Kind, given: Any):
    async with serve(STATUS) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.ConfigurationError, match="isn't an id"):
            await client.get_store_status(given)
    assert server.requests == []


@pytest.mark.parametrize("key", ["", "ü", "x" * 256])
async def test_an_unusable_idempotency_key_is_refused_and_never_replaced(kind: Kind, key: str):
    async with serve(STATUS) as server, opened(kind, server.url) as client:
        for call in (
            client.place_order(ORDER, idempotency_key=key),
            client.cancel_order("1", reason="LATE", idempotency_key=key),
            client.adjust_order("1", REFUND, idempotency_key=key),
        ):
            with pytest.raises(errors.ConfigurationError, match="idempotency key"):
                await call
    assert server.requests == []


async def test_an_error_can_be_copied_and_handed_to_another_process(kind: Kind):
    refusal = problem(409, "ORDER_CLOSED", errorCategory="conflict", orderId="1")
    async with serve(refusal) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.ConflictError) as refused:
            await client.place_order(ORDER, idempotency_key="mine")
        with pytest.raises(errors.DeadlineError) as late:
            raise errors.DeadlineError("Not done", last=types.StoreStatusUpdate(status="online"))
    async with opened(kind, f"http://127.0.0.1:{free_port()}", retries=NEVER) as client:
        with pytest.raises(errors.NoAnswerError) as unanswered:
            await client.get_store("1")
    for error in (refused.value, late.value, unanswered.value):
        handed = pickle.loads(pickle.dumps(error))  # noqa: S301  # its own
        for again in (copy.copy(error), copy.deepcopy(error), handed):
            assert type(again) is type(error)
            assert (str(again), vars(again)) == (str(error), vars(error))


async def test_an_untrusted_certificate_is_refused(kind: Kind):
    tls = self_signed("127.0.0.1")
    async with serve(STATUS, tls=tls.server) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.NoAnswerError, match="certificate") as distrusted:
            await client.get_store_status("1")
    assert isinstance(distrusted.value.__cause__, ssl.SSLCertVerificationError | OSError)
    assert server.requests == []


async def test_garbage_is_not_an_answer(kind: Kind):
    script = raw(b"SSH-2.0-nothing\r\n\r\n")
    async with serve(script) as server, opened(kind, server.url, retries=NEVER) as client:
        with pytest.raises(errors.NoAnswerError):
            await client.get_store("1")


async def test_many_may_share_a_client(kind: Kind):
    async with serve(STATUS) as server, opened(kind, server.url) as client:
        seen = await asyncio.gather(*(client.get_store_status(str(number)) for number in range(40)))
    assert {one.status for one in seen} == {"online"}
    assert len(server.requests) == 40
    assert threading.active_count() < 40


async def test_the_key_is_in_no_text(kind: Kind):
    async with serve(STATUS) as server, opened(kind, server.url, "mk_commerce_secret") as client:
        await client.get_store_status("1")
        shown = [repr(client.client), str(client.client), repr(client.client.core)]
    assert not any("secret" in text for text in shown)


async def test_unsolicited_data_does_not_answer_the_next_request(kind: Kind):
    requested = asyncio.Event()

    async def twice(request: Request, peer: Peer) -> None:
        await STATUS(request, peer)
        # Once the answer has been read, and its connection is kept.
        await requested.wait()
        await peer.send(head(408, content_length=0, connection="close"))
        requested.clear()

    async with serve(in_turn(twice, STATUS)) as server, opened(kind, server.url) as client:
        await client.get_store_status("1")
        requested.set()
        while requested.is_set():  # the client has no event for it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert (await client.get_store_status("1")).status == "online"
    assert [request.connection for request in server.requests] == [0, 1]


async def test_a_client_of_ones_own_sends_the_requests_and_stays_open(kind: Kind):
    own: Any = (httpx.Client if kind is Client else httpx.AsyncClient)(headers={"X-Own": "1"})
    async with serve(STATUS) as server:
        async with opened(kind, server.url, http_client=own) as client:
            await client.get_store_status("1")
        assert not own.is_closed
        assert server.requests[0].headers["x-own"] == "1"
        assert server.requests[0].headers["authorization"] == "Bearer k"
    if kind is Client:
        own.close()
    else:
        await own.aclose()


async def test_a_response_that_ones_own_transport_has_read_is_an_answer(kind: Kind):
    status = json.dumps({"status": "online", "pauseReason": None, "resumeAt": None}).encode()
    compressed = gzip.compress(status)
    read = httpx.MockTransport(
        lambda _: httpx.Response(200, content=compressed, headers={"content-encoding": "gzip"})
    )
    own: Any = (httpx.Client if kind is Client else httpx.AsyncClient)(transport=read)
    async with opened(kind, "http://127.0.0.1", http_client=own) as client:
        assert (await client.get_store_status("1")).status == "online"


async def test_an_answer_longer_than_the_limit_is_not_read_to_its_end(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(exchange, "MAX_BYTES", 10)
    async with serve(endless(b"x" * 100, pause=0.01)) as server, opened(kind, server.url) as client:
        with pytest.raises(errors.UnreadableError, match="too long"):
            await client.set_store_status("1", ONLINE)

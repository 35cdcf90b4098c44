"""How lists are read: what is sent, and when."""

from collections.abc import Iterator

import httpx
import pytest

from mercato_client import NEVER, AsyncClient, Client, errors, types

URL = "http://127.0.0.1:1"
PAGES = {None: "b", "b": "c", "c": None}
"""Three pages: the cursor of each and that of the next."""


class Network:
    """Answers List Refused Requests with one entry a page, and keeps the cursors that were sent."""

    def __init__(self) -> None:
        self.sent: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("cursor")
        self.sent.append(cursor)
        entry: dict[str, object] = {
            "requestId": f"request-{len(self.sent)}", "at": "2026-01-31T18:30:00Z", "operation": None, "method": "GET",
            "path": "/", "status": 404, "errorCode": "NOT_FOUND", "errors": [], "keyId": None, "milliseconds": 1,
        }  # fmt: skip
        page = {"requests": [entry], "nextCursor": PAGES[cursor]}
        return httpx.Response(200, json=page)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def client(network: Network) -> Iterator[Client]:
    with httpx.Client(transport=httpx.MockTransport(network)) as http:
        yield Client(URL, "k", http_client=http)


def test_the_first_page_is_read_at_once_and_the_others_as_they_are_needed(client: Client, network: Network):
    listed = client.list_commerce_requests(limit=1)
    assert network.sent == [None]
    assert listed.page.next_cursor == "b"
    entries = iter(listed)
    assert [next(entries).request_id, network.sent] == ["request-1", [None]]
    assert [next(entries).request_id, network.sent] == ["request-2", [None, "b"]]
    assert [one.request_id for one in entries] == ["request-3"]
    assert network.sent == [None, "b", "c"]


def test_a_list_can_be_iterated_again(client: Client):
    listed = client.list_commerce_requests()
    assert [len(list(listed)), len(list(listed))] == [3, 3]


def test_a_list_that_names_its_own_cursor_as_the_next_one_ends():
    page = httpx.Response(200, json={"requests": [], "nextCursor": "same"})
    with httpx.Client(transport=httpx.MockTransport(lambda _: page)) as http:
        listed = Client(URL, "k", http_client=http).list_commerce_requests()
        with pytest.raises(errors.UnreadableError, match="its own cursor"):
            list(listed)


def test_a_list_that_is_refused_raises_at_the_call():
    refusing = httpx.MockTransport(lambda _: httpx.Response(401, json={}))
    with httpx.Client(transport=refusing) as http, pytest.raises(errors.AuthenticationError):
        Client(URL, "k", retries=NEVER, http_client=http).list_orders()


async def test_an_awaited_list_is_its_first_page_and_an_iterated_one_all_of_them(network: Network):
    async with httpx.AsyncClient(transport=httpx.MockTransport(network)) as http:
        client = AsyncClient(URL, "k", http_client=http)
        listed = client.list_commerce_requests()
        assert network.sent == []
        page = await listed
        assert isinstance(page, types.RefusedRequestPage)
        assert network.sent == [None]
        assert len([one async for one in listed]) == 3
        assert network.sent == [None, None, "b", "c"]

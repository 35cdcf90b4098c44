"""No form holds the service up: whatever it contains, wherever it is sent, with a session and without one."""

from collections.abc import Iterator
from itertools import islice
from random import Random
from time import thread_time
from typing import Any, Final

import pytest
from tests.api.trade import trade
from tests.calibration import plain_decoding_seconds
from tests.console.browser import Browser
from tests.console.test_hostile import FIELDS, path_of
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import only_sqlite
from tests.service import MerchantServer, Service

from mercato.asgi import application
from mercato.console.forms import MAX_FORM
from mercato.console.screen import MERCHANTS, OPERATORS, STOREFRONTS
from mercato.console.site import SCREENS
from mercato.http.browsers import FORM
from mercato_contract import clock

MOST: Final = 9
"""A form costs at most as much CPU as so many ordinary JSON documents of 1 MiB."""

TRIES: Final = 5
"""Other load only makes a run slower, so the fastest counts."""

BEYOND: Final = 512 * 1024
"""Bytes of a form that is larger than any page sends."""

SHARES: Final = [48, pytest.param(1, marks=pytest.mark.long)]
"""Of the forms, `make test` sends every 48th, each screen others, and in each run; `make test-long` sends all."""

UNITS: Final = (
    *(b"'", b"%27", b"%", b"+", b"9", b"\n", b"\0", b"%00", b"%0A", b"=", b"\xff%", b"%ff", b"%E2%98%83"),
    *(b"\xe2\x98\x83%41", b"%22", b"%5B", b"%5B%7B", b"%7B%22a%22%3A", b"%5B%5D%2C", b"1e300%2C"),
)
"""What the values of a form are filled with."""

IN_JSON: Final = UNITS[-5:]
BEGINNINGS: Final = (b"%22", b"%5B", b"%7B%22lineItems%22%3A%5B", b"%7B%22report%22%3A%5B")
"""How a value begins, so that it is read as JSON."""

WITHOUT_VALUES: Final = (b"&", b"&=", b"a=b&", b"=", b"%26=%26&", b"\xff&", b"a[]=1&")
"""What a whole form is filled with."""

LONGEST: Final = {
    "passkey": (b"credential",),
    "account/passkeys": (b"credential",),
    "certification": (b"report",),
    "deliveries/{delivery}/signature": (b"headers", b"body"),
    "playground/place": (b"cart", b"payment"),
}
"""The longest fields of the screens that have some; `cart` and `payment` are of every form of the playground."""


def filled(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def forms(size: int) -> Iterator[bytes]:
    """Yield forms of at most `size` bytes that cost as much as they can."""
    share = size // len(FIELDS) - 20
    for unit in UNITS:
        yield b"&".join(b"%s=%s" % (name.encode(), filled(unit, share)) for name in FIELDS)
    for unit in WITHOUT_VALUES:
        yield filled(unit, size)
    choices = (b"choice%%2F%s%%2F%s=1" % (str(clock.new_id()).encode(), b"a" * 36) for _ in range(250))
    yield b"&".join(choices)[:size]


def long_fields(screen: str, size: int) -> Iterator[bytes]:
    """Yield forms of which one field takes all."""
    for name in LONGEST.get(screen, ()):
        for unit in UNITS:
            yield b"%s=%s" % (name, filled(unit, size - 20))
        for beginning in BEGINNINGS:
            for unit in IN_JSON:
                yield b"%s=%s%s" % (name, beginning, filled(unit, size - 60))


UPLOAD: Final = b"multipart/form-data; boundary=a"


def uploads(size: int) -> Iterator[bytes]:
    """Yield forms with files."""
    for unit in (b"\n", b"\r\n", b"\r\n--", b"\r\n--b", b"[", b"\xff", b'{"":', b"1,"):
        content = filled(unit, size - 200)
        yield content
        for name in (b"file", b"body"):
            yield b'--a\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--a--\r\n' % (name, content)


class Sender:
    """Sends forms to the application itself, without a connection, and measures what they cost its thread."""

    def __init__(self, mercato: Service) -> None:
        self._edge = application(mercato.app)
        self._host = mercato.base.removeprefix("http://").encode()
        self.most = MOST * plain_decoding_seconds()
        self.slow: list[str] = []
        self.tried = 0
        self.statuses: set[int] = set()

    async def send(self, path: str, body: bytes, browser: Browser | None, kind: bytes = FORM) -> int:
        """Send a form, again while it seems to cost too much; note it if it does. Return its status, and note it."""
        best = float("inf")
        for _ in range(TRIES):
            started = thread_time()
            status = await self._answer(path, body, browser, kind)
            best = min(best, thread_time() - started)
            if best < self.most:
                break
        else:
            self.slow.append(f"{path} {body[:60]!r} of {len(body)}: {best / self.most * MOST:.1f}")
        assert status < 500, (path, body[:60])
        self.tried += 1
        self.statuses.add(status)
        return status

    async def _answer(self, path: str, body: bytes, browser: Browser | None, kind: bytes) -> int:
        cookies = {} if browser is None else browser.cookies
        headers = {
            b"host": self._host,
            b"content-type": kind,
            b"content-length": b"%d" % len(body),
            b"sec-fetch-site": b"same-origin",
            b"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()).encode(),
        }
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "http_version": "1.1",
            "scheme": "http",
            "client": ("127.0.0.1", 1),
            "query_string": b"",
            "headers": list(headers.items()),
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._edge(scope, receive, send)
        status: int = sent[0]["status"]
        return status


# A form costs what it does before anything is read: on one database it costs what it does on the other, and
# `test_hostile.py` sends its forms to both.
@only_sqlite
async def test_no_form_without_a_session_costs_more_than_a_body_of_the_api(mercato: Service):
    sender = Sender(mercato)
    stranger = Browser(mercato.base, mercato.session)
    stranger.cookies = {"__Host-mercato-session": "x" * 43}
    ways_in = [f"/console{way}" for way in ("", "/oidc", "/oidc/callback", "/passkey", f"/links/{'x' * 43}")]
    screens = [path_of(screen, {}) for screen in SCREENS if screen.act is not None]
    for browser in (None, stranger):
        for path in (*ways_in, *screens):
            # A screen reads nothing without a session, so its largest form stands for all.
            for form in forms(MAX_FORM) if path in ways_in else ():
                await sender.send(path, form, browser)
            await sender.send(path, b"credential=" + b"'" * (BEYOND - 11), browser)
            await sender.send(path, b"\n" * BEYOND, browser, b"multipart/form-data; boundary*=undefined''a")
    for form in long_fields("passkey", MAX_FORM):
        await sender.send("/console/passkey", form, None)
    assert sender.slow == []
    assert sender.tried > 300
    assert sender.statuses <= {303, 400, 401, 403, 404, 405, 410, 413, 422, 200}


@only_sqlite
@pytest.mark.parametrize("share", SHARES)
async def test_no_form_with_a_session_costs_more_than_a_body_of_the_api(
    mercato: Service, shop: MerchantServer, share: int
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await deal.placed()
    sender = Sender(mercato)
    begun = Random().randrange(share)
    for audience, enter in (
        (MERCHANTS, lambda: enter_as_partner(mercato, deal.pos)),
        (STOREFRONTS, lambda: enter_as_partner(mercato, deal.front)),
        (OPERATORS, lambda: enter_as_operator(mercato)),
    ):
        browser = await enter()
        side = "commerce" if audience == MERCHANTS else "marketfront"
        client = deal.pos if audience == MERCHANTS else deal.front
        page = await mercato.until(client, f"/v1/{side}/webhook-deliveries", lambda page: page["deliveries"])
        ids = {"store": deal.store["storeId"], "delivery": page["deliveries"][0]["deliveryId"]}
        before = sender.tried
        for number, screen in enumerate(SCREENS):
            if screen.act is None or not screen.audiences & audience:
                continue
            first = (number + begun) % share
            path = path_of(screen, ids)
            sent = [(form, FORM) for form in islice(forms(screen.max_form), first, None, share)]
            sent.append((b"text=" + b"'" * (BEYOND - 5), FORM))
            sent += [
                (form, FORM) for form in islice(long_fields(screen.path, screen.max_form), first, None, share)
            ]
            sent += [(form, UPLOAD) for form in islice(uploads(screen.max_form), first, None, share)]
            for form, kind in sent:
                if await sender.send(path, form, browser, kind) == 401:
                    browser = await enter()  # a form has ended the account's sessions
                    assert await sender.send(path, form, browser, kind) != 401, screen.path
        assert sender.tried > before + 300 // share
    assert sender.slow == []

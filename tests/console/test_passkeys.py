"""Passkeys of operators, with an authenticator in software: what a browser sends, without one."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cbor2
import pytest
from sqlalchemy import update
from tests.api.trade import Time
from tests.console.authenticator import Authenticator
from tests.console.browser import Browser, Page
from tests.console.visiting import count_writes, enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite, on_both
from tests.service import Service, service

from mercato.features.sign_in.tables import console_passkeys

pytestmark = mostly_sqlite

ADD = "Add passkey"
USE = "Use a passkey"


def options_of(page: Page) -> Any:
    """Return what the page asks the browser for."""
    return json.loads(
        page.root.all("form", **{"data-passkey": page_kind(page)})[0].attributes["data-options"]
    )


def page_kind(page: Page) -> str:
    return "create" if ADD in page.buttons else "get"


def new_authenticator(mercato: Service) -> Authenticator:
    return Authenticator("127.0.0.1", mercato.base)


async def add(browser: Browser, authenticator: Authenticator, name: str = "A key") -> Page:
    page = await browser.open("/console/account/passkeys/new")
    return await browser.press(page, ADD, name=name, credential=authenticator.create(options_of(page)))


async def use(browser: Browser, authenticator: Authenticator) -> Page:
    page = await browser.open("/console/passkey")
    return await browser.press(page, USE, credential=authenticator.get(options_of(page)))


async def test_an_operator_adds_a_passkey_that_signs_in(mercato: Service):
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    page = await add(browser, key, name="<b>Anna</b>")
    assert (page.status, page.status_region) == (200, "The passkey was added. You can now sign in with it.")
    assert page.rows("Passkeys")[0][0] == "<b>Anna</b>"
    other = Browser(mercato.base, mercato.session)
    page = await use(other, key)
    assert (page.status, page.status_region) == (200, "You are signed in.")
    assert "Passkeys" in (await other.open("/console/account")).captions


async def test_an_answer_signs_in_once(mercato: Service):
    """Also that of a passkey which counts nothing, as those do that are shared between devices."""
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    stranger = Browser(mercato.base, mercato.session)
    page = await stranger.open("/console/passkey")
    answer = key.get(options_of(page))
    assert (await stranger.press(page, USE, credential=answer)).status == 200
    again = await Browser(mercato.base, mercato.session).press(page, USE, credential=answer)
    assert (again.status, "This response was used already" in again.text) == (403, True)


@on_both
async def test_a_clock_that_is_set_back_keeps_no_passkey_from_signing_in(mercato: Service, clock_ahead: Time):
    key = new_authenticator(mercato)
    await add(await enter_as_operator(mercato), key)
    clock_ahead.ahead = timedelta(hours=1)
    assert (await use(Browser(mercato.base, mercato.session), key)).status == 200
    clock_ahead.ahead = timedelta()
    page = await Browser(mercato.base, mercato.session).open("/console/passkey")
    answer = key.get(options_of(page))
    statuses = [
        (await Browser(mercato.base, mercato.session).press(page, USE, credential=answer)).status
        for _ in range(2)
    ]
    assert statuses == [200, 403]


async def test_an_answer_that_will_be_refused_takes_no_write_transaction(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    asked = options_of(await browser.open("/console/passkey"))
    used = key.get(asked)
    stranger = Browser(mercato.base, mercato.session)
    writes = count_writes(monkeypatch)
    assert (await stranger.post("/console/passkey", {"credential": used})).status == 200
    assert writes == ["mercato.console.sign_in"]
    stale = asked | {"challenge": asked["challenge"][:-4] + "AAAA"}
    forged = Authenticator(key.host, key.origin, id=key.id)
    unknown = new_authenticator(mercato)
    for credential in (used, key.get(stale), forged.get(asked), unknown.get(asked), "{}", ""):
        page = await stranger.post("/console/passkey", {"credential": credential})
        assert page.status in {400, 403}, credential
    assert len(writes) == 1


async def test_a_partner_cannot_remove_a_passkey_of_the_operators(mercato: Service):
    operator = await enter_as_operator(mercato)
    asking = (await operator.press(await add(operator, new_authenticator(mercato)), "Remove")).url
    partner = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert (await partner.post(asking)).status == 404
    assert (await operator.open("/console/account")).rows("Passkeys")[0][0] == "A key"


@on_both
async def test_a_passkey_that_is_removed_ends_its_sessions(mercato: Service):
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    page = await add(browser, key)
    other = Browser(mercato.base, mercato.session)
    await use(other, key)
    page = await browser.press(await browser.press(page, "Remove"), "Confirm")
    assert page.status_region == "The passkey was removed."
    assert (await other.open("/console/account")).heading == "Sign in"
    refused = await use(other, key)
    assert (refused.status, "is unknown" in refused.text) == (403, True)


async def test_a_response_to_another_challenge_is_refused(mercato: Service):
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    asked = options_of(await browser.open("/console/passkey"))
    added = options_of(await browser.open("/console/account/passkeys/new"))
    forged = Authenticator(key.host, key.origin, id=key.id)
    elsewhere = Authenticator(key.host, "https://evil.example", id=key.id, key=key.key)
    other_host = Authenticator("evil.example", key.origin, id=key.id, key=key.key)
    unknown = new_authenticator(mercato)
    stale = asked | {"challenge": asked["challenge"][:-4] + "AAAA"}
    for credential in (
        key.get(added), key.get(stale), forged.get(asked), elsewhere.get(asked), other_host.get(asked),
        unknown.get(asked), key.create(asked), "", "{}", '{"response":{"clientDataJSON":"x"}}', "[]", "\x00",
    ):  # fmt: skip
        page = await Browser(mercato.base, mercato.session).post(
            "/console/passkey", {"credential": credential}
        )
        assert page.status in {400, 403, 422}, credential
        assert page.root.all(role="alert")[0].text


def with_(credential: str, **parts: bytes) -> str:
    """Return the browser's answer with other parts."""
    sent = json.loads(credential)
    sent["response"] |= {name: urlsafe_b64encode(raw).decode() for name, raw in parts.items()}
    return json.dumps(sent)


DEEP = 4000


async def test_an_answer_that_cannot_be_read_is_refused(mercato: Service):
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    asked = options_of(await browser.open("/console/passkey"))
    right = key.get(asked)
    for credential in (
        right[:-1] + ', "x": ' + "[" * DEEP + "]" * DEEP + "}",
        with_(right, clientDataJSON=b'{"x":' + b"[" * DEEP + b"]" * DEEP + b"}"),
        right.replace('"id": "', '"id": "\N{SNOWMAN}'),
        right.replace('"rawId": "', '"rawId": "AA'),
        with_(right, signature=b"x"),
    ):
        page = await Browser(mercato.base, mercato.session).post(
            "/console/passkey", {"credential": credential}
        )
        assert (page.status, "wasn't accepted" in page.text) == (403, True), credential[:200]
    adding = options_of(await browser.open("/console/account/passkeys/new"))
    new = new_authenticator(mercato).create(adding)
    without_point = cbor2.dumps({1: 2, 3: -7, -1: 1})
    data = cbor2.loads(urlsafe_b64decode(json.loads(new)["response"]["attestationObject"] + "=="))
    known = data["authData"][:87] + without_point
    for attestation in (b"\x81" * DEEP, cbor2.dumps(data | {"authData": known})):
        fields = {"name": "Odd", "credential": with_(new, attestationObject=attestation)}
        page = await browser.post("/console/account/passkeys", fields)
        assert (page.status, "can't be added" in page.text) == (403, True)


async def test_a_passkey_is_added_once(mercato: Service):
    browser = await enter_as_operator(mercato)
    asked = options_of(await browser.open("/console/account/passkeys/new"))
    fields = {"name": "Mine", "credential": new_authenticator(mercato).create(asked)}
    assert (await browser.post("/console/account/passkeys", fields)).status == 200
    again = await browser.post("/console/account/passkeys", fields)
    assert (again.status, "was added before" in again.text) == (403, True)


async def test_a_passkey_is_added_only_to_the_session_that_asked(mercato: Service):
    browser = await enter_as_operator(mercato)
    other = await enter_as_operator(mercato)
    asked = options_of(await browser.open("/console/account/passkeys/new"))
    fields = {"name": "Mine", "credential": new_authenticator(mercato).create(asked)}
    assert (await other.post("/console/account/passkeys", fields)).status == 403
    assert (await browser.post("/console/account/passkeys", fields)).status == 200


async def test_a_page_that_was_open_for_five_minutes_neither_adds_nor_signs_in(
    mercato: Service, clock_ahead: Time
):
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console/account/passkeys/new")
    clock_ahead.ahead = timedelta(minutes=5)
    answer = new_authenticator(mercato).create(options_of(page))
    refused = await browser.press(page, ADD, name="Late", credential=answer)
    assert (refused.status, "longer than five minutes" in refused.text) == (403, True)


def at(mercato: Service, name: str) -> str:
    """Return the Host of the service under another name."""
    return f"{name}:{urlsplit(mercato.base).port}"


async def test_no_host_of_a_request_is_taken_for_the_site_of_passkeys(mercato: Service):
    """Without MERCATO_PUBLIC_URL there are passkeys on the service's machine alone."""
    browser = await enter_as_operator(mercato)
    # The name that the cookie has over plain http to another host.
    browser.cookies["mercato-session"] = browser.cookies["__Host-mercato-session"]
    for host in ("mercato.example", "localhost.evil.example", "192.0.2.1", at(mercato, "evil.example")):
        for path in ("/console/passkey", "/console/account/passkeys/new"):
            page = await browser.open(path, Host=host)
            assert (page.status, "MERCATO_PUBLIC_URL" in page.text) == (403, True), (host, path)
        sent = {"Host": host, "Sec-Fetch-Site": "same-origin"}
        assert (await browser.post("/console/passkey", {"credential": "{}"}, **sent)).status == 403
    for name in ("localhost", "[::1]"):
        page = await browser.open("/console/passkey", Host=at(mercato, name))
        assert options_of(page)["rpId"] == name.strip("[]")


async def test_a_passkey_signs_in_only_for_the_site_that_it_was_added_on(mercato: Service):
    """Another site of this machine that passes an answer on, with its own name as Host, signs nobody in."""
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    for name, port in (("localhost", urlsplit(mercato.base).port), ("127.0.0.1", 1)):
        host = f"{name}:{port}"
        stranger = Browser(mercato.base, mercato.session)
        page = await stranger.open("/console/passkey", Host=host)
        lured = Authenticator(name, f"http://{host}", id=key.id, key=key.key)
        sent = {"Host": host, "Sec-Fetch-Site": "same-origin"}
        form = {"credential": lured.get(options_of(page))}
        refused = await stranger.post("/console/passkey", form, **sent)
        assert (refused.status, "wasn't accepted" in refused.text) == (403, True), host


async def test_a_challenge_for_one_site_is_not_one_for_another(mercato: Service):
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    page = await browser.open("/console/passkey", Host=at(mercato, "localhost"))
    form = {"credential": key.get(options_of(page))}
    refused = await Browser(mercato.base, mercato.session).post("/console/passkey", form)
    assert (refused.status, "doesn't belong to this page" in refused.text) == (403, True)


async def test_the_public_url_is_the_site_of_passkeys_whatever_the_host_of_a_request(
    database_url: str, tmp_path: Path
):
    url = "https://Mercato.example:443/"
    async with service(database_url, tmp_path / "public", public_url=url) as public:
        browser = await enter_as_operator(public)
        key = Authenticator("mercato.example", "https://mercato.example")
        page = await browser.open("/console/account/passkeys/new", Host="localhost")
        assert options_of(page)["rp"]["id"] == "mercato.example"
        added = await browser.press(page, ADD, name="A key", credential=key.create(options_of(page)))
        assert added.status_region == "The passkey was added. You can now sign in with it."
        other = Browser(public.base, public.session)
        assert options_of(await other.open("/console/passkey", Host="localhost"))["rpId"] == "mercato.example"
        assert (await use(other, key)).status_region == "You are signed in."


@on_both
async def test_a_passkey_from_before_its_site_was_stored_signs_in(mercato: Service):
    browser = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    async with mercato.app.db.write() as tx:
        await tx.execute(update(console_passkeys).values(rp_id=None, origin=None))
    assert (await use(Browser(mercato.base, mercato.session), key)).status_region == "You are signed in."


async def test_partners_have_no_passkeys(mercato: Service):
    _, client = await mercato.partner()
    browser = await enter_as_partner(mercato, client)
    assert "Passkeys" not in (await browser.open("/console/account")).captions
    assert (await browser.open("/console/account/passkeys/new")).status == 404

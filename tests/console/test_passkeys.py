"""Passkeys of operators, with an authenticator in software: what a browser sends, without one."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from typing import Any

import cbor2
import pytest
from tests.api.trade import Time
from tests.console.authenticator import Authenticator
from tests.console.browser import Browser, Page
from tests.console.visiting import count_writes, enter_as_operator, enter_as_partner
from tests.service import Service

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
    browser, _ = await enter_as_operator(mercato)
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
    browser, _ = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    stranger = Browser(mercato.base, mercato.session)
    page = await stranger.open("/console/passkey")
    answer = key.get(options_of(page))
    assert (await stranger.press(page, USE, credential=answer)).status == 200
    again = await Browser(mercato.base, mercato.session).press(page, USE, credential=answer)
    assert (again.status, "This response was used already" in again.text) == (403, True)


async def test_an_answer_that_will_be_refused_takes_no_write_transaction(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    browser, _ = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(browser, key)
    asked = options_of(await browser.open("/console/passkey"))
    used = key.get(asked)
    stranger = Browser(mercato.base, mercato.session)
    writes = count_writes(monkeypatch)
    assert (await stranger.post("/console/passkey", {"credential": used})).status == 200
    assert writes == ["mercato.http.console.passkeys"]
    stale = asked | {"challenge": asked["challenge"][:-4] + "AAAA"}
    forged = Authenticator(key.host, key.origin, id=key.id)
    unknown = new_authenticator(mercato)
    for credential in (used, key.get(stale), forged.get(asked), unknown.get(asked), "{}", ""):
        page = await stranger.post("/console/passkey", {"credential": credential})
        assert page.status in {400, 403}, credential
    assert len(writes) == 1


async def test_a_passkey_that_is_removed_ends_its_sessions(mercato: Service):
    browser, _ = await enter_as_operator(mercato)
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
    browser, _ = await enter_as_operator(mercato)
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
    browser, _ = await enter_as_operator(mercato)
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
    browser, _ = await enter_as_operator(mercato)
    asked = options_of(await browser.open("/console/account/passkeys/new"))
    fields = {"name": "Mine", "credential": new_authenticator(mercato).create(asked)}
    assert (await browser.post("/console/account/passkeys", fields)).status == 200
    again = await browser.post("/console/account/passkeys", fields)
    assert (again.status, "was added before" in again.text) == (403, True)


async def test_a_passkey_is_added_only_to_the_session_that_asked(mercato: Service):
    browser, _ = await enter_as_operator(mercato)
    other, _ = await enter_as_operator(mercato)
    asked = options_of(await browser.open("/console/account/passkeys/new"))
    fields = {"name": "Mine", "credential": new_authenticator(mercato).create(asked)}
    assert (await other.post("/console/account/passkeys", fields)).status == 403
    assert (await browser.post("/console/account/passkeys", fields)).status == 200


async def test_a_page_that_was_open_for_five_minutes_neither_adds_nor_signs_in(
    mercato: Service, clock_ahead: Time
):
    browser, _ = await enter_as_operator(mercato)
    page = await browser.open("/console/account/passkeys/new")
    clock_ahead.ahead = timedelta(minutes=5)
    answer = new_authenticator(mercato).create(options_of(page))
    refused = await browser.press(page, ADD, name="Late", credential=answer)
    assert (refused.status, "longer than five minutes" in refused.text) == (403, True)


async def test_partners_have_no_passkeys(mercato: Service):
    _, client = await mercato.partner()
    browser, _ = await enter_as_partner(mercato, client)
    assert "Passkeys" not in (await browser.open("/console/account")).captions
    assert (await browser.open("/console/account/passkeys/new")).status == 404

"""Single sign-on of operators, with a provider on loopback."""

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from tests.api.trade import Time
from tests.console.browser import Browser, Page
from tests.console.provider import CLIENT_ID, CLIENT_SECRET, Provider, provider
from tests.databases import mostly_sqlite, on_both
from tests.service import Service, service
from tests.waiting import loop_timeout

from mercato import app as wiring
from mercato.features.sign_in import sign_on as providers
from mercato.features.sign_in.model import Grant, People
from mercato.features.sign_in.roles import Role
from mercato.features.sign_in.sign_on import MAX_SIGN_INS_AT
from mercato.platform.db.audit import list_entries
from mercato.settings import Settings
from mercato_contract import clock
from mercato_contract.texts import Secret
from mercato_tools.settings import SettingsError

pytestmark = mostly_sqlite

LINK = "Sign in with single sign-on"
COOKIE = "__Host-mercato-sign-on"
SESSION = "__Host-mercato-session"
CALLBACK = "/console/oidc/callback"


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


Start = Callable[..., Any]


@pytest.fixture
def clock_ahead() -> Time:
    """A clock that only a test moves: of a provider that failed the service says for 5 s what it knows."""
    return Time(begun=clock.now())


@pytest.fixture
def start(database_url: str, tmp_path: Path, there: Provider, clock_ahead: Time) -> Start:
    """Starts the service with single sign-on, and settings that differ."""

    @asynccontextmanager
    async def started(**settings: Any) -> AsyncIterator[Service]:
        chosen: dict[str, Any] = {
            "oidc_issuer": there.issuer,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": Secret(CLIENT_SECRET),
            "oidc_operators": "Anna@example.com, groups=operators",
            "oidc_support": "groups=helpdesk",
            "oidc_viewers": "groups=support",
        } | settings
        async with service(database_url, tmp_path / "data", now=clock_ahead, **chosen) as running:
            yield running

    return started


@pytest.fixture
async def mercato(start: Start) -> AsyncIterator[Service]:
    async with start() as running:
        yield running


async def come(mercato: Service) -> tuple[Browser, Page]:
    """Follow the link of the sign-in page to the provider and back."""
    browser = Browser(mercato.base, mercato.session)
    page = await browser.open("/console")
    return browser, await browser.open(page.link(LINK))


async def enter(mercato: Service) -> tuple[Browser, Page]:
    browser, page = await come(mercato)
    return browser, await browser.press(page, "Continue")


def said(page: Page) -> str:
    return page.root.all(role="alert")[0].text


async def test_an_operator_signs_in_with_the_provider(mercato: Service, there: Provider):
    browser, page = await come(mercato)
    assert page.heading == "Continue to the console"
    assert "anna@example.com" in page.text
    assert SESSION not in browser.cookies
    page = await browser.press(page, "Continue")
    assert (page.status, page.status_region) == (200, "You are signed in.")
    assert "Jobs" in page.navigation
    assert "oidc:anna@example.com" in (await browser.open("/console/account")).text
    assert there.asked[0]["scope"] == "openid email"


async def test_without_the_setting_the_page_offers_no_single_sign_on(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path / "data") as plain:
        browser = Browser(plain.base, plain.session)
        assert LINK not in (await browser.open("/console")).text
        assert (await browser.open("/console/oidc")).heading == "Sign in"


async def test_the_cookie_of_an_attempt_is_lax_sealed_and_removed_on_the_way_back(mercato: Service):
    async with mercato.session.get(mercato.base + "/console/oidc", allow_redirects=False) as answer:
        kept = answer.headers["Set-Cookie"]
        asked = parse_qs(urlsplit(answer.headers["Location"]).query)
    name, *attributes = [part.strip() for part in kept.split(";")]
    assert name.startswith(f"{COOKIE}=")
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"} <= set(attributes)
    assert asked["nonce"][0] not in kept
    assert asked["state"][0] not in kept
    browser, _ = await come(mercato)
    assert COOKIE not in browser.cookies


async def test_a_claim_grants_access_and_a_viewer_changes_nothing(mercato: Service, there: Provider):
    there.person = {"sub": "abc-1", "groups": ["everybody", "support"]}
    browser, page = await enter(mercato)
    assert "Read-only" in page.root.all("header")[0].text
    assert "oidc:abc-1 groups=support" in (await browser.open("/console/account")).text
    assert (await browser.post(f"/console/account/passkeys/{clock.new_id()}/remove")).status == 403
    there.person = {"sub": "abc-2", "groups": "operators"}
    _, page = await enter(mercato)
    assert "Read-only" not in page.root.all("header")[0].text


@on_both
async def test_support_of_single_sign_on_has_the_role_support_and_only_its_own_sessions(
    mercato: Service, there: Provider
):
    anna, _ = await enter(mercato)
    there.person = {"sub": "ian", "groups": ["helpdesk", "support"]}
    ian, page = await enter(mercato)
    assert "Support" in page.root.all("header")[0].text
    assert (await ian.open("/console/jobs")).status == 200
    assert {
        (await ian.open(f"/console/{path}")).status for path in ("erasure", "people", "partners/new")
    } == {403}
    assert ian.cookies
    account = await ian.open("/console/account")
    assert [(row[3], row[4]) for row in account.rows("Sessions")] == [("oidc:ian groups=helpdesk", "Support")]
    assert "Passkeys" not in account.captions
    seen = {(row[3], row[4]): row for row in (await anna.open("/console/account")).rows("Sessions")}
    assert set(seen) == {("oidc:anna@example.com", "Admin"), ("oidc:ian groups=helpdesk", "Support")}
    assert (await ian.post(f"/console/account/passkeys/{clock.new_id()}/remove")).status == 404
    await ian.post("/console/account/sessions/end")
    assert (await ian.open("/console/account")).heading == "Sign in"
    assert (await anna.open("/console/account")).heading == "Account"


@on_both
async def test_a_change_of_the_settings_changes_what_support_may_at_once(start: Start, there: Provider):
    there.person = {"sub": "ian", "groups": ["helpdesk"]}
    async with start() as mercato:
        ian, _ = await enter(mercato)
    for settings, role in (
        ({"oidc_support": None, "oidc_viewers": "groups=helpdesk"}, "Read only"),
        ({"oidc_support": None, "oidc_operators": "groups=helpdesk"}, "Read only"),
        ({"oidc_support": "groups=helpdesk, groups=others"}, "Support"),
        ({"oidc_support": "groups=others"}, None),
    ):
        async with start(**settings) as again:
            ian.base, ian._session = again.base, again.session
            page = await ian.open("/console/account")
            assert (page.rows("Sessions")[0][4] if page.heading == "Account" else None) == role, settings


STRANGERS: list[dict[str, Any]] = [
    {"sub": "1"},
    {"sub": "1", "email": "eve@example.com", "email_verified": True},
    {"sub": "1", "email": "anna@example.com"},
    {"sub": "1", "email": "anna@example.com", "email_verified": False},
    {"sub": "1", "email": "anna@example.com", "email_verified": "true"},
    {"sub": "1", "email": "anna@example.com.evil.example", "email_verified": True},
    {"sub": "anna@example.com"},
    {"sub": "1", "groups": {"operators": True}},
    {"sub": "1", "groups": ["operators2"]},
    {"sub": "a person", "groups": ["operators"]},
]


async def test_no_other_caller_is_admitted(mercato: Service, there: Provider):
    for person in STRANGERS:
        there.person = person
        browser, page = await come(mercato)
        assert (page.status, "MERCATO_OIDC_OPERATORS" in said(page)) == (403, True), person
        assert not browser.cookies


async def test_a_session_ends_when_the_settings_no_longer_admit_its_person(start: Start, there: Provider):
    async with start() as mercato:
        anna, _ = await enter(mercato)
        there.person = {"sub": "7", "groups": ["operators"]}
        operator, _ = await enter(mercato)
    async with start(
        oidc_operators="groups=operators", oidc_support="anna@example.com", oidc_viewers="anna@example.com"
    ) as again:
        for browser, status in ((anna, 401), (operator, 200)):
            browser.base, browser._session = again.base, again.session
            assert (await browser.open("/console/account")).status == status


async def test_a_session_ends_when_single_sign_on_is_turned_off(
    start: Start, database_url: str, tmp_path: Path
):
    async with start() as mercato:
        browser, _ = await enter(mercato)
    async with service(database_url, tmp_path / "data") as plain:
        browser.base, browser._session = plain.base, plain.session
        assert (await browser.open("/console/account")).status == 401


async def test_a_passkey_cannot_be_added_after_single_sign_on(mercato: Service):
    """It would still sign in after the provider has withdrawn access."""
    browser, _ = await enter(mercato)
    for page in (
        await browser.open("/console/account/passkeys/new"),
        await browser.post("/console/account/passkeys", {"name": "Mine", "credential": "{}"}),
    ):
        assert (page.status, "single sign-on" in said(page)) == (403, True)


async def walk_back(mercato: Service) -> tuple[Browser, str]:
    """Return a browser that returns from the provider, and the address of the callback."""
    browser = Browser(mercato.base, mercato.session)
    async with mercato.session.get(mercato.base + "/console/oidc", allow_redirects=False) as answer:
        browser._keep(answer.headers.getall("Set-Cookie"))
        away = answer.headers["Location"]
    async with mercato.session.get(away, allow_redirects=False) as answer:
        return browser, answer.headers["Location"]


async def test_a_callback_works_once_and_only_in_the_browser_that_began(mercato: Service, there: Provider):
    browser, back = await walk_back(mercato)
    other, others_back = await walk_back(mercato)
    for stranger, url in ((Browser(mercato.base, mercato.session), back), (other, back)):
        page = await stranger.open(url)
        assert (page.status, "didn't start in this browser" in said(page)) == (403, True)
    kept = dict(browser.cookies)
    assert (await browser.open(back)).heading == "Continue to the console"
    assert (await browser.open(back)).status == 403
    browser.cookies = kept
    page = await browser.open(back)
    assert (page.status, "no longer accepts this sign-in" in said(page)) == (403, True)
    assert others_back != back
    assert there.calls.count("/token") == 2


@on_both
async def test_a_provider_that_takes_a_code_twice_signs_in_once(mercato: Service, there: Provider):
    browser, back = await walk_back(mercato)
    kept, codes = dict(browser.cookies), dict(there._codes)
    assert (await browser.open(back)).status == 200
    browser.cookies, there._codes = kept, codes
    page = await browser.open(back)
    assert (page.status, "has been used" in said(page)) == (403, True)


async def test_an_attempt_lasts_ten_minutes(mercato: Service, clock_ahead: Time):
    browser, back = await walk_back(mercato)
    clock_ahead.ahead = timedelta(minutes=10)
    assert "within the last ten minutes" in said(await browser.open(back))


async def test_a_changed_cookie_or_answer_is_refused_and_no_address_in_it_is_followed(
    mercato: Service, there: Provider
):
    browser, back = await walk_back(mercato)
    kept = dict(browser.cookies)
    for url in (
        CALLBACK,
        f"{CALLBACK}?code=x",
        f"{CALLBACK}?code=x&state=%00%F0",
        back + "&iss=https://evil.example",
        f"{CALLBACK}?" + "&".join(f"a{number}=1" for number in range(30)),
        "/console/oidc?next=https://evil.example",
    ):
        browser.cookies = dict(kept)
        page = await browser.open(url)
        if "next=" in url:
            assert page.heading == "Continue to the console"
            assert page.form("Continue").attributes["action"].startswith("/console/links/")
        else:
            assert page.status in {400, 403}, url
    for value in ("", "x", "AAAA", base64.urlsafe_b64encode(b"\x01" + b"x" * 60).decode(), "\N{SNOWMAN}"):
        browser.cookies = {COOKIE: value.encode("utf-8").decode("latin-1")}
        assert (await browser.open(back)).status == 403
    assert "/token" in there.calls


async def test_the_providers_error_is_shown_as_text(mercato: Service, there: Provider):
    there.person = None
    browser, page = await come(mercato)
    assert page.status == 403
    assert "access_denied <b>No</b>" in said(page)
    assert not browser.cookies
    # And only to the browser that began.
    page = await Browser(mercato.base, mercato.session).open(f"{CALLBACK}?error=call+zqhotline&state=x")
    assert "zqhotline" not in page.text


def other_key(there: Provider) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": there.key.kid or ""})


def assemble(header: dict[str, str], claims: dict[str, Any], key: bytes | None) -> str:
    """Return a token that no library would create."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    text = b".".join(parts)
    signature = b"" if key is None else hmac.digest(key, text, "sha256")
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


FORGERIES: dict[str, Callable[[Provider, dict[str, Any]], str]] = {
    "another issuer": lambda there, claims: there.sign(claims | {"iss": "https://evil.example"}),
    "another audience": lambda there, claims: there.sign(claims | {"aud": "another"}),
    "another party": lambda there, claims: there.sign(claims | {"aud": [CLIENT_ID, "b"], "azp": "b"}),
    "another nonce": lambda there, claims: there.sign(claims | {"nonce": "x"}),
    "no nonce": lambda there, claims: there.sign({k: v for k, v in claims.items() if k != "nonce"}),
    "expired": lambda there, claims: there.sign(claims | {"exp": claims["iat"] - 121}),
    "no expiry": lambda there, claims: there.sign({k: v for k, v in claims.items() if k != "exp"}),
    "of the future": lambda there, claims: there.sign(claims | {"iat": claims["iat"] + 200}),
    "another key": lambda there, claims: jwt.encode({"alg": "RS256", "kid": "1"}, claims, other_key(there)),
    "no signature": lambda _, claims: assemble({"alg": "none"}, claims, None),
    "the public key as a secret": lambda there, claims: assemble(
        {"alg": "HS256", "kid": "1"}, claims, there.key.as_pem(private=False)
    ),
    "an algorithm that isn't offered": lambda there, claims: jwt.encode(
        {"alg": "RS512", "kid": "1"}, claims, there.key, algorithms=["RS512"]
    ),
    "no token": lambda _there, _claims: "x",
    "no JSON": lambda _there, _claims: "YQ.YQ.YQ",
}


async def test_an_id_token_for_another_client_does_not_sign_in(mercato: Service, there: Provider):
    for name, forge in FORGERIES.items():
        there.forge = partial(forge, there)
        browser, page = await come(mercato)
        assert (page.status, "ID token isn't valid for this service" in said(page)) == (403, True), name
        assert not browser.cookies


async def test_a_provider_whose_clock_is_two_minutes_off_signs_in(mercato: Service, there: Provider):
    for seconds in (-119, 100):
        there.forge = lambda claims, seconds=seconds: there.sign(  # type: ignore[misc]
            claims | {"iat": claims["iat"] + seconds, "exp": claims["iat"] + max(seconds, 0) - 60}
        )
        assert (await come(mercato))[1].status == 200


async def test_a_new_key_of_the_provider_is_read_when_it_is_needed(
    mercato: Service, there: Provider, clock_ahead: Time
):
    assert (await come(mercato))[1].status == 200
    there.key = RSAKey.generate_key(2048, {"kid": "2"})
    assert (await come(mercato))[1].status == 403
    assert there.calls.count("/keys") == 1
    clock_ahead.ahead = timedelta(seconds=31)
    assert (await come(mercato))[1].status == 200
    assert there.calls.count("/keys") == 2
    clock_ahead.ahead = timedelta(seconds=90)
    assert (await come(mercato))[1].status == 200
    assert there.calls.count("/keys") == 2


BAD_CONFIGURATIONS: list[dict[str, Any]] = [
    {"issuer": "https://evil.example"},
    {"token_endpoint": "ftp://localhost/token"},
    {"authorization_endpoint": "javascript:alert(1)"},
    {"authorization_endpoint": "http://localhost/a\r\nSet-Cookie: a=b"},
    {"jwks_uri": 5},
    {"jwks_uri": "http://169.254.169.254/keys"},
]


async def test_a_wrong_configuration_is_a_page(mercato: Service, there: Provider, clock_ahead: Time):
    for wrong in BAD_CONFIGURATIONS:
        there.configuration = wrong
        browser, page = await come(mercato)
        assert page.status == 503, wrong
        assert "mercato console link --operator" in said(page)
        assert not browser.cookies
        clock_ahead.ahead += timedelta(seconds=6)


def fail(_: web.Request) -> web.Response:
    return web.Response(status=500, text="Traceback <script>")


def redirect(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://localhost:1/"})


def fill(_: web.Request) -> web.Response:
    return web.Response(body=b" " * (providers.MAX_REPLY + 1) + b"{}", content_type="application/json")


def garble(_: web.Request) -> web.Response:
    return web.Response(
        body=b'{"issuer":"\xe9","keys":[{"kid":"\xe9"}],"id_token":"\xe9"}', content_type="application/json"
    )


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
async def test_a_failing_provider_is_reported_on_a_page(
    mercato: Service, there: Provider, clock_ahead: Time, path: str
):
    for answer in (fail, redirect, fill, garble):
        there.answers[path] = answer
        there.calls.clear()
        for _ in range(2):
            browser, page = await come(mercato)
            assert page.status == 503
            assert "passkey" in said(page)
            assert "Traceback" not in page.text
            assert not browser.cookies
        # It isn't asked again at once.
        assert there.calls.count(path) == (2 if path == "/token" else 1)
        clock_ahead.ahead += timedelta(seconds=6)
    there.answers.clear()
    assert (await come(mercato))[1].status == 200


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def pour(request: web.Request) -> web.StreamResponse:
    """Answer slowly and without end, less than is read at most."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b" ")
    return await hang(request)


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
async def test_a_silent_provider_is_reported_on_a_page(
    mercato: Service, there: Provider, clock_ahead: Time, monkeypatch: pytest.MonkeyPatch, path: str
):
    monkeypatch.setattr(providers, "SECONDS", 0.2)
    monkeypatch.setattr(providers, "_LIMITS", msgspec.structs.replace(providers._LIMITS, total=0.2))
    for answer in (hang, pour):
        there.answers[path] = answer
        async with loop_timeout(5):
            browser, page = await come(mercato)
        assert (page.status, "passkey" in said(page)) == (503, True)
        assert not browser.cookies
        clock_ahead.ahead += timedelta(seconds=6)
    there.answers.clear()
    monkeypatch.undo()
    assert (await come(mercato))[1].status == 200


async def test_a_callback_that_began_nowhere_calls_no_provider(mercato: Service, there: Provider):
    _, back = await walk_back(mercato)
    stranger = Browser(mercato.base, mercato.session)
    made_up = (CALLBACK, CALLBACK + "?code=x", CALLBACK + "?code=x&state=made-up")
    for path in (*made_up, back):
        assert (await stranger.open(path)).status == 403
    for path in made_up:
        began, _ = await walk_back(mercato)
        assert (await began.open(path)).status == 403
    assert "/token" not in there.calls


async def test_sign_ins_from_one_address_keep_nobody_else_from_signing_in(start: Start, there: Provider):
    """Whoever begins a sign-in can come back with a made-up code, over which a slow provider takes its time."""
    released, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def token(request: web.Request) -> web.Response:
        form = dict(await request.post())
        if form["code"] == "made-up":
            arrived.release()
            await released.wait()
        return there._token(request.headers, form)

    there.answers["/token"] = token
    async with start(trusted_proxies="127.0.0.1/32") as mercato:

        async def flood(address: str) -> Page:
            browser, back = await walk_back(mercato)
            state = parse_qs(urlsplit(back).query)["state"][0]
            made_up = f"{CALLBACK}?code=made-up&state={state}"
            return await browser.open(made_up, **{"X-Forwarded-For": address})

        async with asyncio.TaskGroup() as group:
            floods = [group.create_task(flood(f"2001:db8::{number}")) for number in range(20)]
            for _ in range(MAX_SIGN_INS_AT):
                await arrived.acquire()
            honest, back = await walk_back(mercato)
            page = await honest.open(back, **{"X-Forwarded-For": "192.0.2.1"})
            assert page.heading == "Continue to the console"
            assert not released.is_set()
            released.set()
        pages = [flood.result() for flood in floods]
    assert sorted({page.status for page in pages}) == [403, 429]
    assert sum(page.status == 403 for page in pages) == MAX_SIGN_INS_AT
    refused = next(page for page in pages if page.status == 429)
    assert int(refused.headers["Retry-After"]) > 0
    assert "from your network" in said(refused)


DEEP = b"[" * 50_000
BAD_KEYS: list[Any] = [
    {"keys": []},
    {"keys": [{}]},
    {"keys": [{"kty": "EC", "crv": "a new one", "x": "a", "y": "b"}]},
    {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "1"}]},
    {"keys": [1]},
    b'{"keys": [{"x": ' + DEEP + b"]" * 50_000 + b"}]}",
]


async def test_unreadable_keys_are_reported_on_a_page(mercato: Service, there: Provider, clock_ahead: Time):
    for keys in BAD_KEYS:
        body = keys if isinstance(keys, bytes) else json.dumps(keys).encode()
        there.answers["/keys"] = lambda _, body=body: web.Response(body=body)  # type: ignore[misc]
        assert (await come(mercato))[1].status == 503, keys
        clock_ahead.ahead += timedelta(seconds=6)


async def test_a_key_of_an_unknown_kind_beside_the_right_one_does_not_matter(
    mercato: Service, there: Provider
):
    own = KeySet([there.key]).as_dict()["keys"]
    odd = [{"kty": "EC", "crv": "a new one", "x": "a", "y": "b"}, {"kty": "LATTICE"}, {"kty": "RSA"}]
    there.answers["/keys"] = lambda _: web.json_response({"keys": [*odd, *own]})
    assert (await come(mercato))[1].status == 200


async def test_an_id_token_that_is_nested_without_end_signs_nobody_in(mercato: Service, there: Provider):
    def forge(_claims: dict[str, Any]) -> str:
        parts = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"RS256","kid":"1"}', DEEP)]
        text = b".".join(parts)
        private: Any = there.key.private_key
        signature = private.sign(text, PKCS1v15(), SHA256())
        return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()

    there.forge = forge
    assert (await come(mercato))[1].status == 403


async def test_an_unreachable_provider_is_reported_on_a_page(start: Start):
    async with start(oidc_issuer="http://127.0.0.1:9") as mercato:
        assert (await come(mercato))[1].status == 503


async def test_a_wrong_client_secret_is_reported_on_a_page(start: Start):
    async with start(oidc_client_secret=Secret("wrong")) as mercato:
        assert (await come(mercato))[1].status == 503


async def test_a_sign_in_with_a_provider_is_in_the_audit_trail_and_no_token_is_in_the_log(
    mercato: Service, there: Provider, capsys: pytest.CaptureFixture[str]
):
    tokens: list[str] = []

    def keep(claims: dict[str, Any]) -> str:
        tokens.append(there.sign(claims))
        return tokens[0]

    there.forge = keep
    await enter(mercato)
    there.person = {"sub": "5", "email": "eve@example.com", "email_verified": True}
    await come(mercato)
    async with mercato.app.db.read() as tx:
        entries = await list_entries(tx, limit=10)
    actor = "console:oidc:anna@example.com"
    assert [(one.action, one.actor) for one in entries] == [
        ("console.signIn", actor),
        ("console.signOn", actor),
    ]
    printed = "".join(capsys.readouterr())
    assert tokens[0] not in printed
    assert "eve@example.com" not in printed
    assert CLIENT_SECRET not in printed


@pytest.mark.parametrize(
    ("operators", "match"),
    [
        (None, "nobody may sign in"),
        (" , ", "nobody may sign in"),
        ("anna", "neither an e-mail address nor claim=value"),
        ("groups=", "neither"),
        ("=x", "neither"),
        ("email=anna@example.com", "write an e-mail address alone"),
        ("anna smith@example.com", "neither"),
    ],
)
def test_a_start_without_operators_or_with_malformed_ones_is_refused(operators: str | None, match: str):
    with pytest.raises(SettingsError, match=match):
        People(operators, None, None)


def test_every_entry_that_is_misspelt_is_named():
    with pytest.raises(SettingsError) as refused:
        People("anna, email=a@example.com, groups=ops", "ian", "=x, eve")
    for part in (
        "'anna' is",
        "without email=",
        "'=x' is",
        "MERCATO_OIDC_SUPPORT: 'ian'",
        "MERCATO_OIDC_VIEWERS: 'eve'",
    ):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"oidc_client_secret": None}, "MERCATO_OIDC_CLIENT_SECRET"),
        ({"oidc_issuer": None}, "MERCATO_OIDC_ISSUER"),
        ({"oidc_issuer": "http://login.example.com"}, "must begin with https"),
        ({"oidc_scope": "email"}, "must contain openid"),
    ],
)
def test_incomplete_settings_stop_the_start(changes: dict[str, Any], match: str):
    options: dict[str, Any] = {
        "oidc_issuer": "https://login.example.com",
        "oidc_client_id": "a",
        "oidc_client_secret": Secret("b"),
        "oidc_operators": "anna@example.com",
    }
    with pytest.raises(SettingsError, match=match):
        providers.check_settings(Settings(**(options | changes)))


def test_without_the_extra_the_start_says_which_command_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(providers, "find_spec", lambda _: None)
    settings = Settings(
        oidc_issuer="https://login.example.com", oidc_client_id="a", oidc_client_secret=Secret("b")
    )
    with pytest.raises(SettingsError, match=r"pip install 'mercato\[oidc\]'"):
        providers.check_settings(settings)


def test_a_rule_matches_only_its_own_claim():
    people = People("groups=/ops, KAY@example.com", None, None)
    for created_by in (
        "oidc:1 groups=/ops/night",
        "oidc:1",
        "oidc:groups=/ops x",
        "oidc:eve@example.com",
        "oidc:",
    ):
        assert people.role_of(Grant(partner_id=None, created_by=created_by)) is None, created_by
    assert people.role_of(Grant(partner_id=None, created_by="oidc:1 groups=/ops")) is Role.ADMIN
    # The sign of the unit kelvin has the lower case of a K.
    claims = {"sub": "1", "email": "\N{KELVIN SIGN}ay@example.com", "email_verified": True}
    assert people.admit(claims) is None


def test_a_service_without_single_sign_on_imports_nothing_of_it():
    assert wiring._sign_on(Settings(), None, clock.now) is None  # type: ignore[arg-type]

"""The token endpoint over the wire: RFC 6749's client credentials, and the use of the tokens."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service, service, standing_clock
from tests.sharing import own, shared
from tests.waiting import loop_timeout

from mercato.features.partners import credentials, limits, queries
from mercato.features.partners.credentials import NewKey
from mercato.features.partners.model import PartnerKind, Surface, new_key
from mercato_client.testing.caller import Answer
from mercato_contract.clock import new_id

pytestmark = [shared, mostly_sqlite]

PATH = "/v1/oauth/token"
GUARDED = "/v1/marketfront/webhook-deliveries"
GRANT = {"grant_type": "client_credentials"}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
async def key(mercato: Service) -> NewKey:
    """A marketfront key."""
    made, _ = await mercato.partner(PartnerKind.MARKETFRONT)
    assert made.marketfront_key is not None
    return made.marketfront_key


def id_and_secret(key: NewKey) -> dict[str, str]:
    return {"client_id": str(key.id), "client_secret": key.text}


def basic(client: object, secret: str) -> dict[str, str]:
    both = f"{quote_plus(str(client))}:{quote_plus(secret)}"
    return {"Authorization": "Basic " + base64.b64encode(both.encode()).decode()}


async def ask(mercato: Service, form: Any, *, media: str = FORM, **headers: str) -> Answer:
    body = form if isinstance(form, bytes) else urlencode(form).encode()
    return await mercato.anonymous().post(PATH, body, headers={"Content-Type": media} | headers)


async def token_of(mercato: Service, key: NewKey) -> str:
    reply = await ask(mercato, GRANT | id_and_secret(key))
    assert reply.status == 200, reply.body
    token: str = reply.json()["access_token"]
    return token


async def use(mercato: Service, token: str, path: str = GUARDED) -> Answer:
    return await Client(mercato.base, token, mercato.session).get(path)


def assert_refused(reply: Answer, status: int, error: str) -> Any:
    body = reply.json()
    assert (reply.status, body["error"]) == (status, error), reply.body
    assert body["error_description"]
    assert body["status"] == status
    assert {"type", "title", "detail", "errorCode", "errorCategory", "requestId"} <= body.keys()
    assert reply.headers["Content-Type"] == "application/json"
    assert (reply.headers["Cache-Control"], reply.headers["Pragma"]) == ("no-store", "no-cache")
    return body


# --- the exchange ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by_basic", [True, False])
async def test_a_key_is_exchanged_for_a_token_with_the_same_access(
    mercato: Service, key: NewKey, by_basic: bool
):
    if by_basic:
        reply = await ask(mercato, GRANT, **basic(key.id, key.text))
    else:
        reply = await ask(mercato, GRANT | id_and_secret(key))
    body = reply.json()
    assert reply.status == 200
    assert body == {"access_token": body["access_token"], "token_type": "Bearer", "expires_in": 3600}
    assert reply.headers["Content-Type"] == "application/json"
    assert (reply.headers["Cache-Control"], reply.headers["Pragma"]) == ("no-store", "no-cache")
    assert body["access_token"].startswith("mt_")
    assert (await use(mercato, body["access_token"])).status == 200


@only_sqlite
@pytest.mark.parametrize(
    "change",
    [
        {"unknown": "ignored"},
        {"scope": ""},
        {"resource": ["one", "two"]},
    ],
)
async def test_empty_and_unknown_parameters_are_ignored(
    mercato: Service, key: NewKey, change: dict[str, Any]
):
    body = urlencode(GRANT | id_and_secret(key) | change, doseq=True).encode()
    assert (await ask(mercato, body)).status == 200


@only_sqlite
async def test_the_scheme_and_the_client_id_are_read_in_any_case(mercato: Service, key: NewKey):
    sent = basic(str(key.id).upper(), key.text)["Authorization"].replace("Basic", "bAsIc")
    assert (await ask(mercato, GRANT, Authorization=sent)).status == 200


@only_sqlite
async def test_the_client_id_may_be_repeated_in_the_form_beside_basic(mercato: Service, key: NewKey):
    reply = await ask(mercato, GRANT | {"client_id": str(key.id)}, **basic(key.id, key.text))
    assert reply.status == 200


async def test_a_token_of_a_key_about_to_expire_says_so(mercato: Service, key: NewKey):
    async with mercato.app.db.write() as tx:
        found = await credentials.get_key(tx, key.text)
        await credentials.roll_key(tx, found, overlap=timedelta(minutes=10))
    reply = await ask(mercato, GRANT | id_and_secret(key))
    assert 590 <= reply.json()["expires_in"] <= 600


# --- refusals -------------------------------------------------------------------------------------


@only_sqlite
@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "password", "username": "a", "password": "b"}, "unsupported_grant_type"),
        ({"grant_type": "Client_Credentials"}, "unsupported_grant_type"),
        (GRANT | {"scope": "orders"}, "invalid_scope"),
    ],
)
async def test_an_unsupported_grant_is_400(mercato: Service, key: NewKey, form: dict[str, str], error: str):
    assert_refused(await ask(mercato, form | id_and_secret(key)), 400, error)


@only_sqlite
@pytest.mark.parametrize("name", ["grant_type", "client_id", "client_secret", "scope"])
async def test_a_repeated_parameter_is_an_invalid_request(mercato: Service, key: NewKey, name: str):
    form = GRANT | id_and_secret(key) | {"scope": ""}
    assert_refused(await ask(mercato, [*form.items(), (name, form[name])]), 400, "invalid_request")


@only_sqlite
async def test_credentials_in_the_form_and_by_basic_are_an_invalid_request(mercato: Service, key: NewKey):
    there = basic(key.id, key.text)
    assert_refused(await ask(mercato, GRANT | id_and_secret(key), **there), 400, "invalid_request")
    assert_refused(await ask(mercato, GRANT | {"client_id": "other"}, **there), 400, "invalid_request")


@only_sqlite
async def test_a_body_that_is_not_a_form_is_an_invalid_request(mercato: Service):
    assert_refused(await ask(mercato, b"{}", media="application/json"), 400, "invalid_request")
    assert_refused(await ask(mercato, b"\xff=\xff"), 400, "invalid_request")
    assert_refused(await ask(mercato, b"grant_type=%ff"), 400, "invalid_request")
    assert_refused(await ask(mercato, b"&".join([b"a=1"] * 51)), 400, "invalid_request")
    large = await mercato.anonymous().post(PATH, data=BytesIO(bytes((1 << 20) + 1)))
    assert_refused(large, 413, "invalid_request")


async def test_missing_or_wrong_client_credentials_are_401_with_a_basic_challenge(
    mercato: Service, key: NewKey
):
    for form, headers in (
        (GRANT, {}),
        (GRANT | {"client_id": str(key.id)}, {}),
        (GRANT | id_and_secret(key) | {"client_id": str(new_id())}, {}),
        (GRANT | id_and_secret(key) | {"client_id": "shop"}, {}),
        (GRANT | id_and_secret(key) | {"client_secret": new_key(Surface.MARKETFRONT)}, {}),
        (GRANT | id_and_secret(key) | {"client_secret": "guess\u2603"}, {}),
        (GRANT, basic(key.id, "guess")),
        (GRANT, {"Authorization": "Basic !"}),
        (GRANT, {"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}),
        (GRANT, {"Authorization": f"Bearer {key.text}"}),
    ):
        reply = await ask(mercato, form, **headers)
        body = assert_refused(reply, 401, "invalid_client")
        assert reply.headers["WWW-Authenticate"].startswith("Basic ")
        assert body["errorCode"] == "UNAUTHENTICATED"
        assert key.text.encode() not in reply.body


async def test_a_commerce_key_is_an_unauthorized_client(mercato: Service):
    made, _ = await mercato.partner()
    assert made.commerce_key is not None
    assert_refused(await ask(mercato, GRANT | id_and_secret(made.commerce_key)), 400, "unauthorized_client")


async def test_a_token_cannot_be_exchanged_for_another(mercato: Service, key: NewKey):
    token = await token_of(mercato, key)
    assert_refused(
        await ask(mercato, GRANT | id_and_secret(key) | {"client_secret": token}), 401, "invalid_client"
    )


@only_sqlite
async def test_markdown_is_not_answered_to_an_oauth_client(mercato: Service):
    assert_refused(await ask(mercato, {}, Accept="text/markdown"), 400, "invalid_request")


# --- tokens in use --------------------------------------------------------------------------------


async def revoke(app: Service, key: NewKey) -> None:
    async with app.app.db.write() as tx:
        assert await credentials.revoke_key(tx, await credentials.get_key(tx, key.text))


@on_both
async def test_a_token_is_refused_at_once_in_the_process_that_revokes_its_key(mercato: Service, key: NewKey):
    token = await token_of(mercato, key)
    assert (await use(mercato, token)).status == 200
    await revoke(mercato, key)
    refused = await use(mercato, token)
    assert (refused.status, refused.json()["errorCode"]) == (401, "UNAUTHENTICATED")
    assert refused.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    assert_refused(await ask(mercato, GRANT | id_and_secret(key)), 401, "invalid_client")


async def test_a_token_is_refused_within_2_seconds_in_another_process(
    mercato: Service, key: NewKey, database_url: str, tmp_path: Path
):
    async with service(database_url, tmp_path / "data") as other:
        token = await token_of(mercato, key)
        assert (await use(other, token)).status == 200
        await revoke(mercato, key)
        async with loop_timeout(2):
            while (await use(other, token)).status == 200:
                await asyncio.sleep(0.02)
        assert (await use(other, token)).status == 401


@own()
async def test_a_token_needs_no_database_where_it_was_made(
    mercato: Service, key: NewKey, monkeypatch: pytest.MonkeyPatch
):
    token = (await token_of(mercato, key)).encode()

    def away(*_: Any) -> Any:
        raise AssertionError("a read")

    monkeypatch.setattr(mercato.app.db, "read", away)
    caller = mercato.app.callers.find_cached(token)
    assert caller is not None
    assert await mercato.app.callers.get(token) is caller
    assert (caller.key_id, caller.surface) == (key.id, Surface.MARKETFRONT)


async def test_a_token_has_no_access_to_the_commerce_surface(mercato: Service, key: NewKey):
    refused = await use(mercato, await token_of(mercato, key), "/v1/commerce/stores")
    assert (refused.status, refused.json()["errorCode"]) == (403, "FORBIDDEN")


async def test_a_token_that_was_tampered_with_is_401(mercato: Service, key: NewKey):
    token = await token_of(mercato, key)
    for wrong in (token[:-1], token + "A", token[:10] + ("A" if token[10] != "A" else "B") + token[11:]):
        refused = await use(mercato, wrong)
        assert (refused.status, refused.json()["errorCode"]) == (401, "UNAUTHENTICATED")


# --- failures -------------------------------------------------------------------------------------


@pytest.fixture
async def limited(database_url: str, tmp_path: Path, shop: MerchantServer) -> AsyncIterator[Service]:
    async with service(database_url, tmp_path / "data", now=standing_clock(), rate_limits=True) as running:
        yield running


@only_sqlite
async def test_failures_are_limited_by_client_without_locking_it_out(limited: Service):
    pairs = [await limited.partner(PartnerKind.MARKETFRONT) for _ in range(3)]
    known, cold, other = [made.marketfront_key for made, _ in pairs]
    assert known
    assert cold
    assert other
    await token_of(limited, known)
    for key in (known, cold):
        wrong = GRANT | id_and_secret(key) | {"client_secret": "guess"}
        replies = [await ask(limited, wrong) for _ in range(limits.MAX_FAILURES + 1)]
        assert {reply.status for reply in replies[:-2]} == {401}
        refused = await ask(limited, wrong)
        body = assert_refused(refused, 429, "temporarily_unavailable")
        assert 1 <= int(refused.headers["Retry-After"]) == body["retryAfter"] <= 60
    await token_of(limited, known)
    await token_of(limited, other)
    # Not even where the key isn't cached.
    await token_of(limited, cold)


@only_sqlite
async def test_failures_are_limited_by_address_whatever_the_client(
    limited: Service, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "MAX_FAILURES_AT", 5)
    statuses = [
        (await ask(limited, GRANT | {"client_id": str(new_id()), "client_secret": "guess"})).status
        for _ in range(12)
    ]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    made, _ = await limited.partner(PartnerKind.MARKETFRONT)
    assert made.marketfront_key
    await token_of(limited, made.marketfront_key)


@only_sqlite
async def test_wrong_keys_after_too_many_failures_are_looked_up_one_at_a_time(
    limited: Service, key: NewKey, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "MAX_FAILURES_AT", 5)
    made, _ = await limited.partner(PartnerKind.MARKETFRONT)
    right = made.marketfront_key
    assert right
    reading = most = 0
    find = queries.find_caller_by_digest

    async def slowly(tx: Any, digest: bytes) -> Any:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        try:
            await asyncio.sleep(0.005)
            return await find(tx, digest)
        finally:
            reading -= 1

    def wrong() -> dict[str, str]:
        return GRANT | {"client_id": str(new_id()), "client_secret": new_key(Surface.MARKETFRONT)}

    for _ in range(6):
        await ask(limited, wrong())
    monkeypatch.setattr(queries, "find_caller_by_digest", slowly)
    attempts = [asyncio.create_task(ask(limited, wrong())) for _ in range(60)]
    await token_of(limited, right)
    statuses = {(await attempt).status for attempt in attempts}
    assert (statuses, most) == ({429}, 1)


@only_sqlite
async def test_failures_behind_a_trusted_proxy_are_the_clients_own(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "MAX_FAILURES_AT", 5)

    def wrong() -> dict[str, str]:
        return GRANT | {"client_id": str(new_id()), "client_secret": "guess"}

    limited: dict[str, Any] = {"rate_limits": True, "trusted_proxies": "127.0.0.0/8"}
    async with service(database_url, tmp_path / "data", now=standing_clock(), **limited) as behind:
        one, other = ({"X-Forwarded-For": f"1.1.1.1, 198.51.100.{n}"} for n in (1, 2))
        refused = [(await ask(behind, wrong(), **one)).status for _ in range(8)]
        assert refused[-1] == 429
        assert (await ask(behind, wrong(), **other)).status == 401


async def test_an_access_token_opens_no_console(mercato: Service, key: NewKey):
    """Its hour would become a session that makes keys."""
    token = await token_of(mercato, key)
    for sent in (token, f" {token}\t"):
        headers = {"Authorization": f"Bearer {sent}"}
        refused = await mercato.anonymous().post("/v1/console/links", {"readOnly": True}, headers=headers)
        assert (refused.status, refused.json()["errorCode"]) == (403, "FORBIDDEN")
        assert "with the key itself" in refused.json()["detail"]
    assert (await Client(mercato.base, key.text, mercato.session).post("/v1/console/links")).status == 201

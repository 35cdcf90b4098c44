"""The keys of an account in the console: made, rolled, revoked, shown once; secrets, webhooks and limits."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.api.trade import trade
from tests.console.browser import Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner, enter_whole_account, partner_link
from tests.databases import mostly_sqlite, on_both
from tests.service import Client, MerchantServer, Service, service, standing_clock
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.partners import accounts, credentials
from mercato.features.partners.model import ApiKey, PartnerKind, is_whole
from mercato.features.partners.webhook_tokens import get_webhook_tokens
from mercato.features.sign_in import sessions
from mercato.platform.db.audit import list_entries
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]


def shown(page: Page) -> str:
    """Return the key or secret in the region that shows it once."""
    region = next(one for one in page.root.all("section") if one.attributes["aria-label"] == "Shown once")
    return region.all("code")[0].text


async def test_what_was_done_is_in_the_status_region_of_a_page_that_shows_something_once(mercato: Service):
    browser = await enter_whole_account(mercato, (await mercato.partner(PartnerKind.MARKETFRONT))[0].id)
    said = {}
    for path, button, fields in (
        ("keys", "Create key", {}),
        ("keys", "Roll key", {}),
        ("keys", "Rotate secret", {}),
        ("agents", "Create agent", {"name": "Lunch"}),
        ("people", "Invite person", {"name": "Anna", "role": "support"}),
        ("webhooks/endpoints", "Add endpoint", {"url": "http://127.0.0.1/mine"}),
    ):
        page = await browser.press(await browser.open(f"/console/{path}"), button, **fields)
        assert shown(page)
        said[button] = page.status_region
    assert said == {
        "Create key": "Key created.",
        "Roll key": "Key rolled.",
        "Rotate secret": "Secret rotated.",
        "Create agent": "Agent created.",
        "Invite person": "Invitation made.",
        "Add endpoint": "Endpoint added.",
    }


@own()
async def test_a_key_is_made_shown_once_used_and_revoked(mercato: Service):
    client = (await mercato.partner())[1]
    browser = await enter_as_partner(mercato, client)
    page = await browser.open("/console/keys")
    with capture_logs() as logs:
        made = await browser.press(page, "Create key", description=HOSTILE[:-1], expiresInDays="30")
    key = shown(made)
    assert is_whole(key.encode())
    assert key.startswith("mk_commerce_")
    assert key not in str(browser.cookies) + made.url + str(made.headers) + str(logs)
    page = await browser.open("/console/keys")
    assert key not in page.body.decode()
    check_frame(page)
    assert key[:18] in page.rows("API keys")[1][0]
    assert "<script>alert(1)" in page.rows("API keys")[1][2]
    other = client.with_key(key)
    assert (await other.get("/v1/commerce/stores")).status == 200
    question = await browser.open(f"/console/keys/{revocable(page, 1)}/revoke")
    assert "Confirm" in question.buttons
    done = await browser.press(question, "Confirm")
    assert done.status_region == f"The key {key[:18]} is revoked."
    assert done.rows("API keys")[1][1] == "revoked"
    assert (await other.get("/v1/commerce/stores")).status == 401
    async with mercato.app.db.read() as tx:
        entries = await list_entries(tx, action="console.createKey", limit=5)
        assert [one.actor.split(":")[:2] for one in entries] == [["console", "key"]]


def revocable(page: Page, row: int) -> str:
    """Return the id of a listed key."""
    keys = [one.attributes["id"] for one in page.root.all("code") if "id" in one.attributes]
    return keys[row].removeprefix("key-")


async def test_a_rolled_key_works_beside_the_new_one(mercato: Service):
    client = (await mercato.partner())[1]
    browser = await enter_as_partner(mercato, client)
    page = await browser.open("/console/keys")
    rolled = await browser.press(page, "Roll key")
    assert "works for 24 more hours" in rolled.text
    assert client.key is not None
    for key in (client.key, shown(rolled)):
        assert (await client.with_key(key).get("/v1/commerce/stores")).status == 200


async def test_revoking_the_sessions_own_key_says_so_and_ends_the_session(mercato: Service):
    client = (await mercato.partner())[1]
    browser = await enter_as_partner(mercato, client)
    page = await browser.open("/console/keys")
    question = await browser.open(f"/console/keys/{revocable(page, 0)}/revoke")
    assert "you are signed out" in question.text
    assert (await browser.press(question, "Confirm")).heading == "Sign in"


async def test_a_partner_of_both_kinds_makes_keys_for_each_side(mercato: Service):
    browser = await enter_whole_account(mercato, (await mercato.partner(PartnerKind.BOTH))[0].id)
    for surface in ("commerce", "marketfront"):
        page = await browser.open("/console/keys")
        made = await browser.press(page, "Create key", surface=surface)
        assert shown(made).startswith(f"mk_{surface}_")
    refused = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await refused.open("/console/keys")
    assert (await refused.press(page, "Create key", surface="marketfront")).status == 409


async def expire_in_30_days(mercato: Service, client: Client) -> None:
    """Roll the client's key to one that expires."""
    async with mercato.app.db.write() as tx:
        old = await credentials.get_key(tx, client.key or "")
        partner = await accounts.get_partner(tx, old.partner_id)
        made = await credentials.create_key(
            tx, partner, surface=old.surface, expires_at=clock.now() + timedelta(days=30)
        )
    client.key = made.text


async def key_of(mercato: Service, text: str) -> ApiKey:
    async with mercato.app.db.read() as tx:
        return await credentials.get_key(tx, text)


@own()
async def test_a_key_made_in_a_keys_session_descends_from_it_and_expires_no_later(mercato: Service):
    client = (await mercato.partner())[1]
    await expire_in_30_days(mercato, client)
    parent = await key_of(mercato, client.key or "")
    browser = await enter_as_partner(mercato, client)
    page = await browser.open("/console/keys")
    for days in ("", "3650", "7"):
        made = await browser.press(page, "Create key", expiresInDays=days)
        key = await key_of(mercato, shown(made))
        assert (key.parent_key_id, key.surface) == (parent.id, parent.surface)
        assert parent.expires_at is not None
        assert key.expires_at is not None
        assert (key.expires_at < parent.expires_at) is (days == "7")
        assert key.expires_at <= parent.expires_at
        assert f"no later than {parent.prefix}" in made.text
    rolled = await browser.post(f"/console/keys/{key.id}/roll")
    other = await key_of(mercato, shown(rolled))
    assert (other.parent_key_id, other.expires_at is not None) == (parent.id, True)
    own = await key_of(mercato, shown(await browser.post(f"/console/keys/{parent.id}/roll")))
    assert (own.parent_key_id, own.expires_at) == (parent.id, parent.expires_at), "as before it was rolled"
    assert f"Made with {parent.prefix}" in (await browser.open("/console/keys")).text


@own()
async def test_a_key_made_in_an_operators_session_has_no_parent(mercato: Service):
    made, _ = await mercato.partner()
    browser = await enter_whole_account(mercato, made.id)
    key = await key_of(mercato, shown(await browser.press(await browser.open("/console/keys"), "Create key")))
    assert (key.parent_key_id, key.expires_at) == (None, None)


@on_both
@own()
async def test_revoking_a_key_lists_what_descends_from_it_and_offers_to_revoke_that_too(mercato: Service):
    made, client = await mercato.partner()
    browser = await enter_as_partner(mercato, client)
    child = client.with_key(
        shown(await browser.press(await browser.open("/console/keys"), "Create key", description="till"))
    )
    its = await enter_as_partner(mercato, child)
    grandchild = client.with_key(shown(await its.press(await its.open("/console/keys"), "Create key")))
    last = await enter_as_partner(mercato, grandchild)
    unrelated = await enter_whole_account(mercato, made.id)
    operator = await enter_as_operator(mercato)
    parent = await key_of(mercato, client.key or "")
    paths = {
        unrelated: f"/console/keys/{parent.id}/revoke",
        operator: f"/console/partners/{made.id}/keys/{parent.id}/revoke",
    }
    for who, path in paths.items():
        question = await who.open(path)
        assert [one.text for one in question.root.all("li") if "mk_commerce" in one.text] == [
            f"{(child.key or '')[:18]} (till)",
            (grandchild.key or "")[:18],
        ]
        check_frame(question)
    done = await unrelated.press(await unrelated.open(paths[unrelated]), "Confirm")
    assert "Still valid: 2 keys that descend from it." in done.status_region
    assert (await browser.open("/console/account")).status == 401
    for session, key in ((its, child), (last, grandchild)):
        assert (await session.open("/console/account")).status == 200
        assert (await key.get("/v1/commerce/stores")).status == 200
    done = await operator.press(await operator.open(paths[operator]), "Confirm", descendants="true")
    assert "with 2 keys that descended from it" in done.status_region
    for session, key in ((its, child), (last, grandchild)):
        assert (await session.open("/console/account")).status == 401
        assert (await key.get("/v1/commerce/stores")).status == 401


@own()
async def test_a_revoked_keys_session_makes_no_key_that_outlives_it(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    """A form that was being read while the key was revoked makes nothing."""
    client = (await mercato.partner())[1]
    browser = await enter_as_partner(mercato, client)
    whole = sessions.find_session

    async def find_then_revoke(*arguments: Any, **options: Any) -> Any:
        found = await whole(*arguments, **options)
        async with mercato.app.db.write() as tx:
            await credentials.revoke_key(tx, await credentials.get_key(tx, client.key or ""))
        return found

    monkeypatch.setattr(sessions, "find_session", find_then_revoke)
    assert (await browser.post("/console/keys")).status == 403


async def test_the_console_makes_a_bounded_number_of_keys(mercato: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mercato.console.new_keys.MAX_ACTIVE_KEYS", 1)
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await browser.open("/console/keys")
    for button in ("Create key", "Roll key"):
        refused = await browser.press(page, button)
        assert (refused.status, "at most 1" in refused.text) == (409, True)


@own()
async def test_a_new_signing_secret_is_shown_once_and_signs(mercato: Service):
    made, client = await mercato.partner()
    browser = await enter_as_partner(mercato, client)
    rotated = await browser.press(await browser.open("/console/keys"), "Rotate secret")
    text = shown(rotated)
    async with mercato.app.db.read() as tx:
        assert await accounts.get_signing_secrets(tx, mercato.app.vault, made.id) == [
            text,
            made.signing_secret,
        ]
    page = await browser.open("/console/keys")
    assert len(page.rows("Signing secrets")) == 2
    assert text not in page.body.decode()
    assert text not in str(browser.cookies)


@on_both
@own()
async def test_where_webhooks_go_is_set_and_a_token_is_never_shown(mercato: Service):
    made, _ = await mercato.partner(PartnerKind.BOTH)
    browser = await enter_whole_account(mercato, made.id)
    page = await browser.open("/console/keys")
    saved = await browser.press(page, "Save event URL", eventUrl="https://shop.example.com/events?a=<b>")
    assert saved.status_region == "Order events go to the new URL."
    assert "https://shop.example.com/events?a=<b>" in saved.text
    refused = await browser.press(page, "Save event URL", eventUrl="ftp://shop.example.com")
    assert refused.status == 409
    stopped = await browser.press(saved, "Save event URL", eventUrl="")
    assert "nowhere" in stopped.text
    token = "secret-token-of-the-till"
    set_ = await browser.press(page, "Set token", webhookToken=token, origin="https://pos.example.com")
    assert "https://pos.example.com" in set_.text
    assert token not in set_.body.decode()
    async with mercato.app.db.read() as tx:
        tokens = await get_webhook_tokens(tx, mercato.app.vault, made.id)
    assert tokens == {"https://pos.example.com": token}
    question = await browser.press(set_, "Remove token")
    removed = await browser.press(question, "Confirm")
    assert "carry no token" in removed.text


@pytest.mark.parametrize("url", ["http://shop.example.com/e", "https://127.0.0.1/e", "https://[fd00::1]/e"])
async def test_an_event_url_that_is_never_called_is_refused(database_url: str, tmp_path: Path, url: str):
    async with service(database_url, tmp_path / "data", allow_private_networks=False) as closed:
        _, shop = await closed.partner(PartnerKind.MARKETFRONT)
        browser = await enter_as_partner(closed, shop)
        refused = await browser.press(await browser.open("/console/keys"), "Save event URL", eventUrl=url)
        assert refused.status == 409
        assert "The event URL" in refused.text
        good = "https://shop.example.com/e"
        done = await browser.press(await browser.open("/console/keys"), "Save event URL", eventUrl=good)
        assert done.status_region == "Order events go to the new URL."


async def test_no_address_gets_each_event_twice_whichever_way_it_is_named_first(mercato: Service):
    _, shop = await mercato.partner(PartnerKind.MARKETFRONT)
    url, endpoints = "http://127.0.0.1:9/events", "/v1/marketfront/webhook-endpoints"
    made = (await shop.post(endpoints, {"url": url})).json()
    browser = await enter_as_partner(mercato, shop)
    refused = await browser.press(await browser.open("/console/keys"), "Save event URL", eventUrl=url)
    assert refused.status == 409
    assert "has a webhook endpoint with this URL already" in refused.text
    assert (await shop.call("DELETE", f"{endpoints}/{made['endpointId']}")).status == 204
    for _ in range(2):
        saved = await browser.press(await browser.open("/console/keys"), "Save event URL", eventUrl=url)
        assert saved.status_region == "Order events go to the new URL."
    assert (await shop.post(endpoints, {"url": url})).status == 409


async def test_limits_and_their_use_are_shown(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path / "limited", now=standing_clock(), rate_limits=True) as limited:
        _, client = await limited.partner()
        await partner_link(client)
        browser = await enter_as_partner(limited, client)
        page = await browser.open("/console/keys")
        assert [row[0] for row in page.rows("Limits")] == ["reads", "writes"]
        assert page.rows("Limits")[1][2] == "1", "the link was a write"
        assert "Stored today 0.0 of" in page.text


@own()
async def test_keys_are_for_whole_accounts_that_may_change_and_their_own(mercato: Service):
    client = (await mercato.partner())[1]
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    async with mercato.app.db.read() as tx:
        key = await credentials.get_key(tx, client.key or "")
    for action in ("roll", "revoke"):
        assert (await stranger.post(f"/console/keys/{key.id}/{action}")).status == 404
    assert (await stranger.open(f"/console/keys/{key.id}/revoke")).status == 404
    reader = await enter_as_partner(mercato, client, read_only=True)
    assert (await reader.open("/console/keys")).buttons == ["Sign out"]
    operator = await enter_as_operator(mercato)
    assert (await operator.open("/console/keys")).status == 404


@on_both
async def test_a_session_for_one_store_sees_no_keys(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos, store_id=deal.store["storeId"])
    page = await browser.open("/console")
    assert "Keys" not in page.navigation
    assert (await browser.open("/console/keys")).status == 404
    assert (await browser.post("/console/keys")).status == 404


async def test_of_two_changes_of_an_event_url_the_second_one_announces_what_the_first_one_set(
    mercato: Service,
):
    old, new = "https://old.example/events", ["https://a.example/events", "https://b.example/events"]
    _, client = await mercato.partner(PartnerKind.MARKETFRONT, event_url=old)
    browser = await enter_as_partner(mercato, client)
    page = await browser.open("/console/keys")
    # Both forms are read before either changes the account.
    await asyncio.gather(*(browser.press(page, "Save event URL", eventUrl=url) for url in new))
    origins: list[tuple[str, str]] = []
    after = ""
    async with asyncio.timeout(PATIENCE):
        while len(origins) < len(new):
            feed = (await client.get(f"/v1/marketfront/events?types=endpoint.changed&wait=25{after}")).json()
            origins += [
                (event["data"]["previousOrigin"], event["data"]["origin"]) for event in feed["events"]
            ]
            after = f"&after={feed['nextCursor']}"
    assert [before for before, _ in origins] == ["https://old.example", origins[0][1]]

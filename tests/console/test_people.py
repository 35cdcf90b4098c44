"""The people of an account: invited, joined with a passkey of their own, signed in by it, and removed."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from tests.api.trade import Time
from tests.console.authenticator import Authenticator
from tests.console.browser import Browser, Page, path_of
from tests.console.test_passkeys import add, new_authenticator, options_of, use
from tests.console.visiting import (
    count_writes,
    enter_as_operator,
    enter_as_partner,
    enter_as_person,
    enter_whole_account,
    partner_link,
)
from tests.databases import mostly_sqlite, on_both
from tests.service import Service

from mercato.features.partners import accounts
from mercato.features.partners.model import PartnerKind
from mercato.features.partners.queries import find_prefixes
from mercato.features.sign_in import people
from mercato.features.sign_in.model import Person
from mercato.features.sign_in.roles import OPERATOR_ROLES, Role
from mercato.platform.db.audit import list_entries
from mercato.platform.errors import Conflict
from mercato_contract import clock

pytestmark = mostly_sqlite

INVITE = "Invite person"
ADD = "Add passkey"


async def invite(browser: Browser, name: str, role: str) -> str:
    """Invite somebody on the page People; return the path of the link that is shown."""
    shown = await browser.press(await browser.open("/console/people"), INVITE, name=name, role=role)
    assert shown.status == 200, shown.text
    url = shown.root.all("pre")[0].text
    assert url in shown.region("Shown once")
    return path_of(url)


async def join(mercato: Service, link: str, key: Authenticator) -> tuple[Browser, Page]:
    browser = Browser(mercato.base, mercato.session)
    page = await browser.open(link)
    return browser, await browser.press(page, ADD, name="Laptop", credential=key.create(options_of(page)))


async def test_a_manager_is_invited_joins_with_a_passkey_and_signs_in_by_it(mercato: Service):
    made, client = await mercato.partner()
    owner = await enter_as_partner(mercato, client)
    link = await invite(owner, " Anna Smith ", "manager")
    key = new_authenticator(mercato)
    scanner = Browser(mercato.base, mercato.session)
    for _ in range(2):
        page = await scanner.open(link)
        assert ("Anna Smith is invited to the account" in page.text, page.buttons) == (True, [ADD])
    assert options_of(page)["user"]["name"] == "Anna Smith"
    _, first = await join(mercato, link, key)
    assert (first.status, first.status_region) == (200, "You are signed in.")
    assert "Anna Smith" in first.root.all("header")[0].text
    again, refused = await scanner.open(link), await scanner.post(link, {"name": "x", "credential": "{}"})
    assert {(one.status, one.heading) for one in (again, refused)} == {(410, "This link has been used")}
    other = Browser(mercato.base, mercato.session)
    assert (await use(other, key)).status_region == "You are signed in."
    row = (await owner.open("/console/people")).rows("People")[0]
    assert (row[0], row[1], row[2]) == ("Anna Smith", "Manager", "joined")
    async with mercato.app.db.read() as tx:
        entries = await list_entries(tx, partner_id=made.id, limit=10)
    assert [(one.action, one.actor) for one in entries if one.actor == "console:person:Anna Smith"] == [
        ("console.signIn", "console:person:Anna Smith"),
        *[("console.acceptInvitation", "console:person:Anna Smith")] * 3,
    ]


async def test_what_people_do_is_in_the_audit_trail_under_their_names(mercato: Service):
    made, _ = await mercato.partner(PartnerKind.MARKETFRONT)
    browser, _ = await enter_as_person(mercato, Role.MANAGER, made.id, name="Anna Smith")
    page = await browser.open("/console/keys")
    await browser.press(page, "Save event URL", eventUrl="https://example.com/events")
    operator = await enter_as_operator(mercato)
    page = await operator.open("/console/audit?action=console.setEventUrl")
    assert page.rows("Audit entries")[0][1] == "Anna Smith"
    by_name = await operator.open("/console/audit?actor=Anna+Smith")
    assert "console.setEventUrl" in [row[2] for row in by_name.rows("Audit entries")]


async def test_the_audit_names_keys_and_passkeys_rather_than_their_ids(mercato: Service):
    made, client = await mercato.partner()
    await partner_link(client)
    operator = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    await add(operator, key, name="Anna's laptop")
    await use(Browser(mercato.base, mercato.session), key)
    actors = {row[1] for row in (await operator.open("/console/audit")).rows("Audit entries")}
    assert (
        await operator.press(await operator.open("/console/people"), "Invite person", name="Ben")
    ).status == 200
    listed = (await operator.open("/console/people")).rows("People")
    assert [row[3].startswith("the operator ") for row in listed] == [True]
    async with mercato.app.db.read() as tx:
        prefix = (await find_prefixes(tx, [made.keys[0].id]))[made.keys[0].id]
    assert {f"key {prefix}\N{HORIZONTAL ELLIPSIS}", "passkey Anna's laptop"} <= actors
    assert "console:cli:anna" in actors


async def test_whoever_is_removed_is_signed_out_everywhere_and_their_passkey_is_unknown(mercato: Service):
    client = (await mercato.partner())[1]
    owner = await enter_as_partner(mercato, client)
    key = new_authenticator(mercato)
    anna, _ = await join(mercato, await invite(owner, "Anna", "support"), key)
    bob, _ = await join(mercato, await invite(owner, "Bob", "support"), new_authenticator(mercato))
    page = await owner.open("/console/people")
    question = await owner.press(page, "Remove")
    assert (await anna.open("/console/account")).status == 200, "nothing before Confirm"
    assert (await owner.press(question, "Confirm")).status_region == "Anna was removed."
    assert (await anna.open("/console/account")).status == 401
    assert (await bob.open("/console/account")).status == 200
    refused = await use(Browser(mercato.base, mercato.session), key)
    assert (refused.status, "is unknown" in refused.text) == (403, True)
    assert [row[0] for row in (await owner.open("/console/people")).rows("People")] == ["Bob"]


@on_both
async def test_an_invitation_that_was_withdrawn_replaced_or_is_too_old_is_refused(
    mercato: Service, clock_ahead: Time
):
    owner = await enter_as_partner(mercato, (await mercato.partner())[1])
    replaced = await invite(owner, "Anna", "readOnly")
    shown = await owner.press(await owner.open("/console/people"), "Invite again")
    link = path_of(shown.root.all("pre")[0].text)
    stranger = Browser(mercato.base, mercato.session)
    assert (await stranger.open(replaced)).heading == "This link isn't valid"
    assert (await stranger.open(link)).status == 200
    clock_ahead.ahead = timedelta(days=3)
    assert ((await stranger.open(link)).status, (await stranger.open(link)).heading) == (
        410,
        "This invitation has expired",
    )
    owner = await enter_as_partner(mercato, (await mercato.partner())[1])
    ended = await invite(owner, "Carl", "readOnly")
    await owner.press(await owner.press(await owner.open("/console/account"), "End all sessions"), "Confirm")
    assert (await stranger.open(ended)).heading == "This invitation has expired"


async def test_nobody_gets_a_second_invitation_by_which_another_would_act_in_their_name(mercato: Service):
    made, _ = await mercato.partner()
    browser, anna = await enter_as_person(mercato, Role.MANAGER, made.id, name="Anna")
    assert "Invite again" not in (await browser.open("/console/people")).buttons
    refused = await browser.post(f"/console/people/{anna.id}/invite")
    assert (refused.status, "has accepted the invitation" in refused.text) == (409, True)


async def test_an_invitation_that_will_be_refused_takes_no_write_transaction(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    owner = await enter_as_partner(mercato, (await mercato.partner())[1])
    link = await invite(owner, "Anna", "manager")
    key = new_authenticator(mercato)
    stranger = Browser(mercato.base, mercato.session)
    asked = options_of(await stranger.open(link))
    other = options_of(await stranger.open(await invite(owner, "Bob", "manager")))
    stale = asked | {"challenge": asked["challenge"][:-4] + "AAAA"}
    elsewhere = Authenticator(key.host, "https://evil.example", id=key.id, key=key.key)
    writes = count_writes(monkeypatch)
    for credential in (
        key.create(stale),
        key.create(other),
        elsewhere.create(asked),
        key.get(asked),
        "{}",
        "",
    ):
        page = await stranger.post(link, {"name": "Mine", "credential": credential})
        assert page.status in {400, 403}, credential
    assert (await stranger.post(link, {"name": "", "credential": key.create(asked)})).status == 400
    assert writes == []
    assert not stranger.cookies
    assert (await stranger.post(link, {"name": "Mine", "credential": key.create(asked)})).status == 200


@on_both
async def test_of_two_who_accept_one_invitation_at_once_one_is_signed_in(mercato: Service):
    made, client = await mercato.partner()
    owner = await enter_as_partner(mercato, client)
    link = await invite(owner, "Anna", "manager")
    both = [Browser(mercato.base, mercato.session) for _ in range(2)]
    pages = [await browser.open(link) for browser in both]
    keys = [new_authenticator(mercato).create(options_of(page)) for page in pages]
    ends = await asyncio.gather(
        *(
            browser.press(page, ADD, name="Laptop", credential=key)
            for browser, page, key in zip(both, pages, keys, strict=True)
        )
    )
    assert sorted(page.status for page in ends) == [200, 410]
    async with mercato.app.db.read() as tx:
        assert len(await people.list_people(tx, made.id)) == 1


@on_both
@pytest.mark.parametrize("is_operator", [False, True])
async def test_of_invitations_at_the_same_time_only_so_many_happen_as_the_account_has_room(
    mercato: Service, is_operator: bool, monkeypatch: pytest.MonkeyPatch
):
    account = None if is_operator else (await mercato.partner())[0].id
    await enter_as_person(mercato, Role.SUPPORT, account)
    monkeypatch.setattr(people, "MAX_PEOPLE", 3)

    async def invite_one(number: int) -> bool:
        try:
            async with mercato.app.db.write() as tx:
                name, now = f"Person {number}", clock.now()
                await people.invite(tx, account, name=name, role=Role.SUPPORT, created_by="cli:anna", now=now)
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*map(invite_one, range(8)))) == 2


async def test_names_are_told_apart_within_an_account_and_shown_as_text(mercato: Service):
    client = (await mercato.partner())[1]
    owner = await enter_as_partner(mercato, client)
    await invite(owner, "<b>Anna</b>", "manager")
    for name, role, status in (
        ("<b>Anna</b>", "support", 409),
        (" ", "support", 422),
        ("A\nB", "support", 422),
        ("\N{RIGHT-TO-LEFT OVERRIDE}annA", "support", 422),
        ("x" * 101, "support", 422),
        ("Bob", "admin", 422),
        ("Bob", "owner", 422),
        ("Bob", "root", 422),
    ):
        page = await owner.post("/console/people", {"name": name, "role": role})
        assert page.status == status, (name, role)
        assert page.root.all(role="alert")[0].text
    assert [row[0] for row in (await owner.open("/console/people")).rows("People")] == ["<b>Anna</b>"]
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    await invite(stranger, "<b>Anna</b>", "manager")


async def test_an_account_knows_no_people_of_another(mercato: Service):
    made, _ = await mercato.partner()
    _, anna = await enter_as_person(mercato, Role.MANAGER, made.id, name="Anna")
    other = await enter_as_partner(mercato, (await mercato.partner())[1])
    operator = await enter_as_operator(mercato)
    for browser in (other, operator):
        assert (await browser.open("/console/people")).rows("People")[0][0].startswith("Nobody yet")
        for path in (f"/console/people/{anna.id}/remove", f"/console/people/{anna.id}/invite"):
            assert (await browser.post(path)).status == 404
        assert (await browser.open(f"/console/people/{anna.id}/remove")).status == 404


async def test_a_session_of_one_side_or_of_one_store_invites_nobody(mercato: Service):
    made, client = await mercato.partner(PartnerKind.BOTH)
    side = await enter_as_partner(mercato, client)
    page = await side.open("/console/people")
    assert (INVITE in page.buttons, "both sides of the account" in page.text) == (False, True)
    refused = await side.post("/console/people", {"name": "Anna", "role": "manager"})
    assert (refused.status, "both sides of the account" in refused.text) == (403, True)
    _, bob = await enter_as_person(mercato, Role.MANAGER, made.id, name="Bob")
    assert (await side.post(f"/console/people/{bob.id}/remove")).status == 403
    whole = await enter_whole_account(mercato, made.id)
    assert await invite(whole, "Anna", "manager")


async def test_nobody_is_invited_where_passkeys_work_for_no_site(mercato: Service):
    browser = await enter_as_operator(mercato)
    browser.cookies["mercato-session"] = browser.cookies["__Host-mercato-session"]
    page = await browser.open("/console/people", Host="mercato.example")
    assert (INVITE in page.buttons, "MERCATO_PUBLIC_URL" in page.text) == (False, True)


async def test_revoking_a_key_names_the_people_who_were_invited_with_it_and_offers_to_remove_them(
    mercato: Service,
):
    made, client = await mercato.partner()
    owner = await enter_as_partner(mercato, client)
    anna, _ = await join(mercato, await invite(owner, "Anna", "manager"), new_authenticator(mercato))
    bob, _ = await join(mercato, await invite(anna, "Bob", "support"), new_authenticator(mercato))
    whole = await enter_whole_account(mercato, made.id)
    carl, _ = await join(mercato, await invite(whole, "Carl", "support"), new_authenticator(mercato))
    question = await whole.open(f"/console/keys/{made.keys[0].id}/revoke")
    assert [one.text for one in question.root.all("main")[0].all("li")] == ["Anna, Manager", "Bob, Support"]
    done = await whole.press(question, "Confirm", descendants="true")
    assert "with 2 people that descended from it" in done.status_region
    for browser, status in ((anna, 401), (bob, 401), (carl, 200)):
        assert (await browser.open("/console/account")).status == status


async def test_a_suspended_partners_people_are_signed_out_and_can_not_sign_in_or_join(mercato: Service):
    made, client = await mercato.partner()
    owner = await enter_as_partner(mercato, client)
    key = new_authenticator(mercato)
    anna, _ = await join(mercato, await invite(owner, "Anna", "manager"), key)
    link = await invite(owner, "Bob", "manager")
    async with mercato.app.db.write() as tx:
        await accounts.set_suspended(tx, made.id, clock.now())
    assert (await anna.open("/console/account")).status == 401
    refused = await use(Browser(mercato.base, mercato.session), key)
    assert (refused.status, "is suspended" in refused.text) == (403, True)
    assert (await Browser(mercato.base, mercato.session).open(link)).status == 410


@on_both
async def test_a_person_has_passkeys_of_their_own_and_no_one_elses(mercato: Service):
    _, client = await mercato.partner()
    owner = await enter_as_partner(mercato, client)
    first, second = new_authenticator(mercato), new_authenticator(mercato)
    anna, _ = await join(mercato, await invite(owner, "Anna", "manager"), first)
    bob, _ = await join(mercato, await invite(owner, "Bob", "manager"), new_authenticator(mercato))
    assert (await add(anna, second, name="Phone")).status == 200
    assert [row[0] for row in (await anna.open("/console/account")).rows("Passkeys")] == ["Laptop", "Phone"]
    page = await bob.open("/console/account")
    assert [row[0] for row in page.rows("Passkeys")] == ["Laptop"]
    asked = options_of(await bob.open("/console/account/passkeys/new"))
    assert len(asked["excludeCredentials"]) == 1
    await bob.press(await bob.press(page, "Remove"), "Confirm")
    assert (await bob.open("/console/account")).status == 401
    assert (await use(Browser(mercato.base, mercato.session), second)).status == 200
    operator = await enter_as_operator(mercato)
    assert "Laptop" not in (await operator.open("/console/account")).text
    its_own = (await anna.open("/console/account")).root.all("table")[-1].all("form")[0].attributes["action"]
    assert (await operator.post(its_own)).status == 404


async def test_support_sees_and_ends_its_own_sessions_alone(mercato: Service):
    _, client = await mercato.partner()
    owner = await enter_as_partner(mercato, client)
    key = new_authenticator(mercato)
    eve, _ = await join(mercato, await invite(owner, "Eve", "support"), key)
    again = Browser(mercato.base, mercato.session)
    await use(again, key)
    page = await eve.open("/console/account")
    assert [row[3] for row in page.rows("Sessions")] == ["Eve", "Eve"]
    assert len((await owner.open("/console/account")).rows("Sessions")) == 3
    await eve.post("/console/account/sessions/end")
    assert (await again.open("/console/account")).status == 401
    assert (await owner.open("/console/account")).status == 200


@pytest.mark.parametrize("is_operator", [False, True])
async def test_support_ends_no_invitation_of_its_account(mercato: Service, is_operator: bool):
    account = None if is_operator else (await mercato.partner())[0].id
    manager, _ = await enter_as_person(mercato, OPERATOR_ROLES[0] if is_operator else Role.MANAGER, account)
    support, _ = await enter_as_person(mercato, Role.SUPPORT, account, name="Sue Support")
    link = await invite(manager, "Ann", "support")
    page = await support.open("/console/account/sessions/end")
    assert "Everybody" not in page.text
    await support.press(page, "Confirm")
    assert (await support.open("/console/account")).status == 401
    joined, _ = await join(mercato, link, new_authenticator(mercato))
    assert (await joined.open("/console/account")).status == 200
    other = await invite(manager, "Bob", "support")
    await manager.post("/console/account/sessions/end")
    refused = await Browser(mercato.base, mercato.session).open(other)
    assert refused.heading == "This invitation has expired"


async def test_people_are_deleted_with_their_partner(mercato: Service):
    made, _ = await mercato.partner()
    await enter_as_person(mercato, Role.MANAGER, made.id)
    operator = await enter_as_operator(mercato)
    page = await operator.open(f"/console/partners/{made.id}/delete")
    await operator.press(page, "Confirm")
    async with mercato.app.db.read() as tx:
        assert await people.list_people(tx, made.id) == []


async def test_an_operator_is_invited_and_has_no_customers_as_admin(mercato: Service):
    operator = await enter_as_operator(mercato)
    key = new_authenticator(mercato)
    admin, first = await join(mercato, await invite(operator, "Ada", "admin"), key)
    assert first.navigation == (await operator.open("/console/health")).navigation
    assert (await use(Browser(mercato.base, mercato.session), key)).status == 200
    assert [row[1] for row in (await admin.open("/console/people")).rows("People")] == ["Admin"]


def actor_of(person_id: UUID, name: str) -> str:
    return Person(id=person_id, partner_id=None, name=name, role=Role.ADMIN).actor


def test_no_name_of_a_person_is_an_actor_of_another_kind():
    for name in ("cli:root", "key:1", "service", "oidc:a"):
        assert actor_of(clock.new_id(), name) == f"person:{name}"

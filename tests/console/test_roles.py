"""What each role may do in the console, on every screen and by every action."""

from collections.abc import Awaitable, Callable
from itertools import count
from uuid import UUID

import pytest
from tests.console.browser import Browser
from tests.console.visiting import enter_as_operator, enter_as_person, enter_whole_account
from tests.databases import first_on_postgresql, mostly_sqlite
from tests.docs.documents import ROOT
from tests.service import Service
from tests.sharing import own, shared

from mercato.console.screen import OPERATORS, PARTNERS, Audience
from mercato.console.screens.account import POWERS
from mercato.console.site import SCREENS
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in.roles import ALLOWED, OPERATOR_ROLES, PARTNER_ROLES, Permission, Role
from mercato_contract import clock

pytestmark = shared

OWNER, ADMIN, MANAGER, SUPPORT, READ_ONLY = (
    Role.OWNER, Role.ADMIN, Role.MANAGER, Role.SUPPORT, Role.READ_ONLY,
)  # fmt: skip
ALL = frozenset(Role)
CHANGES = ALL - {READ_ONLY}
MANAGES = CHANGES - {SUPPORT}
ACCOUNT = MANAGES - {MANAGER}

MAY_OPEN = {
    "account/passkeys/new": CHANGES,
    "agents": ALL - {SUPPORT},
    "agents/{agent}": ALL - {SUPPORT},
    "board": CHANGES,
    "board/changes": CHANGES,
    "catalogs/upload": MANAGES,
    "erasure": MANAGES,
    "keys": ALL - {SUPPORT},
    "orders/{order}/ticket": CHANGES,
    "partners/new": MANAGES,
    "people": ALL - {SUPPORT},
    "reports": MANAGES,
    "reports/orders": MANAGES,
    "stores/register": MANAGES,
    "stores/register/{registration}": MANAGES,
    "stores/{store}/charges": MANAGES,
    "stores/{store}/handling": MANAGES,
    "stores/{store}/hours": MANAGES,
    "webhooks/endpoints": ALL - {SUPPORT},
    "webhooks/{delivery}/signature": CHANGES,
}
"""Who opens a page; every other one is opened by all."""

MAY_PRESS = {
    "account/passkeys": CHANGES,
    "account/passkeys/{passkey}/remove": CHANGES,
    "account/sessions/end": CHANGES,
    "account/sessions/{session}/end": CHANGES,
    "account/timezone": ALL,
    "agents": ACCOUNT,
    "agents/{agent}/revoke": MANAGES,
    "board/{order}/accept": CHANGES,
    "board/{order}/cancellation": CHANGES,
    "board/{order}/hand-over": CHANGES,
    "board/{order}/ready": CHANGES,
    "board/{order}/refuse": CHANGES,
    "catalogs/{run}/activate": MANAGES,
    "catalogs/{run}/cancel": MANAGES,
    "catalogs/upload": MANAGES,
    "catalogs/uploads/{upload}/publish": MANAGES,
    "certification": MANAGES,
    "certification/{report}/delete": MANAGES,
    "erasure/confirm": MANAGES,
    "erasure/erase": MANAGES,
    "erasure/find": MANAGES,
    "jobs/revive": CHANGES,
    "jobs/revive-all": CHANGES,
    "keys": ACCOUNT,
    "keys/event-url": MANAGES,
    "keys/rotate-secret": ACCOUNT,
    "keys/webhook-token": MANAGES,
    "keys/webhook-token/remove": MANAGES,
    "keys/{key}/revoke": MANAGES,
    "keys/{key}/roll": ACCOUNT,
    "orders/{order}/adjust": CHANGES,
    "orders/{order}/cancel": CHANGES,
    "orders/{order}/customer": frozenset({OWNER, MANAGER, SUPPORT}),
    "orders/{order}/resend": CHANGES,
    "partners/new": MANAGES,
    "partners/{partner}/delete": MANAGES,
    "partners/{partner}/keys/{key}/revoke": MANAGES,
    "partners/{partner}/limits": MANAGES,
    "partners/{partner}/name": MANAGES,
    "partners/{partner}/resume": MANAGES,
    "partners/{partner}/sessions/end": MANAGES,
    "partners/{partner}/suspend": MANAGES,
    "people": MANAGES,
    "people/{person}/invite": MANAGES,
    "people/{person}/remove": MANAGES,
    "playground": ALL,
    "playground/add": ALL,
    "playground/place": MANAGES,
    "playground/remove": ALL,
    "playground/update": ALL,
    "playground/validate": MANAGES,
    "search": ALL,
    "stores/register": MANAGES,
    "stores/register/{registration}": MANAGES,
    "stores/register/{registration}/activate": MANAGES,
    "stores/register/{registration}/delete": MANAGES,
    "stores/register/{registration}/menu": MANAGES,
    "stores/register/{registration}/submit": MANAGES,
    "stores/{store}/charges": MANAGES,
    "stores/{store}/handling": MANAGES,
    "stores/{store}/hours": MANAGES,
    "stores/{store}/items": CHANGES,
    "stores/{store}/pause": CHANGES,
    "stores/{store}/resume": CHANGES,
    "webhooks/endpoints": ACCOUNT,
    "webhooks/endpoints/{endpoint}/delete": MANAGES,
    "webhooks/endpoints/{endpoint}/disable": MANAGES,
    "webhooks/endpoints/{endpoint}/enable": MANAGES,
    "webhooks/endpoints/{endpoint}/rotate-secret": ACCOUNT,
    "webhooks/endpoints/{endpoint}/test": MANAGES,
    "webhooks/resend-failed": CHANGES,
    "webhooks/{delivery}/resend": CHANGES,
    "webhooks/{delivery}/signature": CHANGES,
}
"""Who presses a button. An action that isn't here fails the test."""


def test_every_role_has_a_row_in_the_table():
    assert set(ALLOWED) == set(Role)


def test_every_action_of_the_console_is_in_the_table_of_this_test():
    assert {one.path for one in SCREENS if one.act is not None} == set(MAY_PRESS)
    assert set(MAY_OPEN) <= {one.path for one in SCREENS if one.show is not None}


@pytest.mark.parametrize("audience", Audience)
def test_the_page_people_says_of_every_permission_that_an_account_needs_what_it_allows(audience: Audience):
    needed = {one.needs for one in SCREENS if audience in one.audiences}
    told = {permission for permission, audiences, _ in POWERS if audience in audiences}
    # A part of pages that everybody opens needs these.
    assert told == needed | {Permission.FIND_CUSTOMERS, Permission.SEE_CUSTOMERS, Permission.SEE_KEYS}


@pytest.mark.parametrize(
    ("audience", "roles", "head"),
    [(PARTNERS, PARTNER_ROLES, "people of a partner may"), (OPERATORS, OPERATOR_ROLES, "operators may")],
    ids=["partners", "operators"],
)
def test_the_guide_has_the_table_of_roles(audience: frozenset[Audience], roles: tuple[Role, ...], head: str):
    words: dict[Permission, str] = {}
    for permission, audiences, text in POWERS:
        if audiences & audience:
            words.setdefault(permission, text)
    expected = [[head, *(f"`{role.words}`" for role in roles)], ["---"] * (1 + len(roles))]
    for permission, text in words.items():
        expected.append([text, *("yes" if permission in ALLOWED[role] else "" for role in roles)])
    lines = (ROOT / "docs/how-to/use-the-console.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = lines[start : lines.index("", start)]
    assert [[cell.strip() for cell in row.strip("|").split("|")] for row in rows] == expected


@mostly_sqlite
@own()
async def test_the_page_people_shows_what_each_role_may_as_the_table_of_roles_has_it(mercato: Service):
    account = (await mercato.partner(PartnerKind.COMMERCE))[0].id
    for browser, roles in (
        (await enter(mercato, OWNER, account), PARTNER_ROLES),
        (await enter(mercato, ADMIN, None), OPERATOR_ROLES),
    ):
        rows = (await browser.open("/console/people")).rows("Permissions")
        words = {text: permission for permission, _, text in POWERS}
        for text, *cells in rows:
            assert [one == "yes" for one in cells] == [words[text] in ALLOWED[role] for role in roles], text
        assert len(rows) == len({words[text] for text, *_ in rows}), "each once"


async def enter(mercato: Service, role: Role, partner_id: UUID | None) -> Browser:
    if role is OWNER:
        assert partner_id is not None
        return await enter_whole_account(mercato, partner_id)
    if role is ADMIN:
        return await enter_as_operator(mercato)
    return (await enter_as_person(mercato, role, partner_id))[0]


def support_first(roles: tuple[Role, ...]) -> list[Role]:
    """Return the roles with a person's first: on PostgreSQL it has the statements of all of them."""
    return sorted(roles, key=lambda role: role is not SUPPORT)


@pytest.mark.parametrize("role", support_first((OWNER, *PARTNER_ROLES)))
@first_on_postgresql
async def test_a_role_of_a_partner_reaches_what_it_includes_and_nothing_else(mercato: Service, role: Role):
    async def begin() -> Browser:
        return await enter(mercato, role, (await mercato.partner(PartnerKind.BOTH))[0].id)

    await try_screens(begin, role, PARTNERS)


@own()
@pytest.mark.parametrize("role", support_first(OPERATOR_ROLES))
@first_on_postgresql
async def test_a_role_of_operators_reaches_what_it_includes_and_nothing_else(mercato: Service, role: Role):
    names = count()

    async def begin() -> Browser:
        if role is ADMIN:
            return await enter_as_operator(mercato)
        return (await enter_as_person(mercato, role, None, name=f"Eve {next(names)}"))[0]

    await try_screens(begin, role, OPERATORS)


async def try_screens(
    begin: Callable[[], Awaitable[Browser]], role: Role, audiences: frozenset[Audience]
) -> None:
    """Open every page and press every button, with ids of nothing: who may not is refused before these are looked up.

    What a role may do can end its own session: then `begin` begins another.
    """
    browser = await begin()
    for screen in SCREENS:
        path = "/".join(str(clock.new_id()) if one.startswith("{") else one for one in screen.path.split("/"))
        tried = []
        if screen.show is not None or screen.ask is not None:
            allowed = MAY_OPEN.get(screen.path, ALL) if screen.ask is None else MAY_PRESS[screen.path]
            tried.append((Browser.open, "GET", allowed))
        if screen.act is not None:
            tried.append((Browser.post, "POST", MAY_PRESS[screen.path]))
        for send, method, allowed in tried:
            status = (await send(browser, f"/console/{path}")).status
            if status == 401:
                browser = await begin()
                status = (await send(browser, f"/console/{path}")).status
            what = f"{method} {screen.path} as {role}"
            check(status, what, has_it=bool(screen.audiences & audiences), is_allowed=role in allowed)


def check(status: int, what: str, *, has_it: bool, is_allowed: bool) -> None:
    if not has_it:
        assert status == 404, what
    elif is_allowed:
        assert status < 500, what
        assert status not in {401, 403}, what
    else:
        assert status == 403, what


@mostly_sqlite
@own()
async def test_a_page_has_no_button_that_would_be_refused(mercato: Service):
    account = (await mercato.partner(PartnerKind.BOTH))[0].id
    for role, shown, hidden in (
        (MANAGER, {"Invite person", "Save event URL"}, {"Create key", "Rotate secret", "Roll key"}),
        (
            READ_ONLY,
            set[str](),
            {"Invite person", "Create key", "Save event URL", "Set token", "Rotate secret"},
        ),
    ):
        browser, _ = await enter_as_person(mercato, role, account, name=role.words)
        pages = [await browser.open(f"/console/{name}") for name in ("keys", "people")]
        buttons = {one for page in pages for one in page.buttons}
        assert (shown <= buttons, hidden & buttons) == (True, set()), role
    support, _ = await enter_as_person(mercato, SUPPORT, account, name="Support")
    page = await support.open("/console/account")
    assert not {"Keys", "People"} & set(page.navigation)


@mostly_sqlite
@own()
async def test_support_of_the_operator_sees_no_keys_of_partners(mercato: Service):
    made, _ = await mercato.partner()
    browser, _ = await enter_as_person(mercato, SUPPORT)
    page = await browser.open(f"/console/partners/{made.id}")
    assert page.status == 200
    assert "Keys" not in page.captions
    assert made.keys[0].text[:20] not in page.text
    assert page.buttons == ["Sign out"]
    assert not {"Erasure", "People"} & set(page.navigation)

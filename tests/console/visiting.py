"""Functions that sign in to the console."""

import sys
from typing import Any
from uuid import UUID

import pytest
from tests.console.browser import Browser, Page
from tests.service import Client, Service

from mercato.features.sign_in import people, sessions
from mercato.features.sign_in.model import Grant, Person
from mercato.features.sign_in.roles import Role
from mercato.platform.db.engine import Database
from mercato_contract import clock


async def partner_link(client: Client, **wanted: Any) -> str:
    """Return the address of a one-time link, made with the client's key."""
    reply = await client.post("/v1/console/links", wanted)
    assert reply.status == 201, reply.body
    url: str = reply.json()["url"]
    return url


async def operator_link(mercato: Service, partner_id: UUID | None = None) -> str:
    """Return the address of a one-time link, as `mercato console link` makes it: `--operator`, or `--partner`."""
    grant = Grant(partner_id=partner_id, created_by="cli:anna")
    async with mercato.app.db.write() as tx:
        made = await sessions.create_link(tx, grant, now=clock.now())
    return f"{mercato.base}/console/links/{made.token}"


async def enter(mercato: Service, link: str) -> tuple[Browser, Page]:
    """Sign a new browser in with the link; return it and its first page."""
    browser = Browser(mercato.base, mercato.session)
    return browser, await browser.press(await browser.open(link), "Continue")


async def enter_as_partner(
    mercato: Service, client: Client, *, store_id: str | None = None, read_only: bool = False
) -> Browser:
    """Sign in as a link of the client's key does, for one of its stores, or only to look."""
    caller = await mercato.app.callers.get((client.key or "").encode())
    grant = Grant(
        partner_id=caller.partner_id,
        created_by=f"key:{caller.key_id}",
        key_id=caller.key_id,
        store_id=None if store_id is None else UUID(store_id),
        read_only=read_only,
    )
    return await _enter(mercato, grant)


async def enter_whole_account(mercato: Service, partner_id: UUID) -> Browser:
    """Sign in as a link of the command for the partner does: it shows both sides of a partner of both kinds."""
    return await _enter_by_command(mercato, partner_id)


async def enter_as_operator(mercato: Service, *, read_only: bool = False) -> Browser:
    return await _enter_by_command(mercato, None, read_only=read_only)


async def _enter_by_command(mercato: Service, partner_id: UUID | None, *, read_only: bool = False) -> Browser:
    return await _enter(mercato, Grant(partner_id=partner_id, created_by="cli:anna", read_only=read_only))


async def _enter(mercato: Service, grant: Grant) -> Browser:
    now = mercato.app.clock()
    async with mercato.app.db.write() as tx:
        link = await sessions.create_link(tx, grant, now=now)
        return signed_in(mercato, await sessions.sign_in(tx, link.token, now=now))


def signed_in(mercato: Service, token: str) -> Browser:
    """Return a browser that has the session's cookie."""
    browser = Browser(mercato.base, mercato.session)
    browser.cookies["__Host-mercato-session"] = token
    return browser


async def enter_as_person(
    mercato: Service, role: Role, partner_id: UUID | None = None, *, name: str = "Eve Adams"
) -> tuple[Browser, Person]:
    """Sign somebody in who was invited to the account, as their passkey does."""
    now = mercato.app.clock()
    async with mercato.app.db.write() as tx:
        link = await people.invite(tx, partner_id, name=name, role=role, created_by="cli:anna", now=now)
        person = await people.accept(tx, link.token, now=now)
        token = await sessions.begin(tx, person.grant, now=now)
    return signed_in(mercato, token), person


def count_writes(patch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets, for each write transaction that a page begins from now on, the page's module."""
    writes: list[str] = []
    write = Database.write

    def count(self: Database) -> Any:
        module: str = sys._getframe(1).f_globals["__name__"]
        if module.startswith("mercato.console."):
            writes.append(module)
        return write(self)

    patch.setattr(Database, "write", count)
    return writes

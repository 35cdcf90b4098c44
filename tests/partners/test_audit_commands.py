"""Every change by a command is in the audit trail with its user, and can be listed."""

import asyncio
import json
import os
import pwd
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cyclopts import App
from sqlalchemy import update
from tests.databases import mostly_sqlite, on_both
from tests.partners.test_commands import Shell, fresh, shell

from mercato.features.partners import accounts, credentials
from mercato.features.partners.model import PREFIX_LENGTH
from mercato.features.partners.vault import FILE
from mercato.features.webhooks import endpoint_health
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database
from mercato.platform.db.tables import audit as entries
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato_contract import clock
from mercato_contract.clock import first_id
from mercato_contract.wire import rfc3339
from mercato_tools.cli.commands import app

pytestmark = mostly_sqlite

__all__ = ["fresh", "shell"]

READS = {
    ("audit",),
    ("catalog", "diff"),
    ("catalog", "import", "csv"),
    ("catalog", "import", "deliverect"),
    ("catalog", "import", "hubrise"),
    ("catalog", "import", "schema-org"),
    ("catalog", "import", "square"),
    ("catalog", "import", "toast"),
    ("catalog", "import", "uber"),
    ("catalog", "lint"),
    ("catalog", "show"),
    ("catalog", "template"),
    ("certify", "merchant"),
    ("certify", "storefront"),
    ("certify", "verify"),
    ("console", "people"),
    ("doctor",),
    ("job", "list"),
    ("key", "list"),
    ("listen",),
    ("mcp",),
    ("notification", "list"),
    ("order", "list"),
    ("order", "show"),
    ("partner", "list"),
    ("price", "verify"),
    ("request", "list"),
    ("secret", "list"),
    ("store", "list"),
    ("store", "show"),
    ("url", "doctor"),
    ("webhooks", "explain"),
    ("webhooks", "list"),
    ("webhooks", "show"),
}
"""Commands that change nothing."""

PROCESSES = {
    ("db", "copy"),
    ("demo",),
    ("migrate",),
    ("sandbox", "merchant"),
    ("sandbox", "storefront"),
    ("serve",),
    ("worker",),
}
"""Servers and workers, commands that send requests as partners, and those that create the tables, the audit trail
among them."""

ELSEWHERE = {
    ("backup",),
    ("console", "remove-person"),
    ("customer", "erase"),
    ("job", "revive"),
    ("notification", "add"),
    ("notification", "enable"),
    ("notification", "remove"),
    ("notification", "test"),
    ("order", "cancel"),
    ("restore",),
    ("secret", "reseal"),
    ("store", "pause"),
    ("store", "resume"),
    ("webhooks", "replay"),
}
"""Commands that need more than a partner to have an effect; each has a test of its own, here or beside its feature."""

URL = "http://pos.example/hooks?signed=hush"

CHANGES: dict[tuple[str, ...], list[str]] = {
    ("partner", "create"): ["Second", "--kind", "both"],
    ("partner", "update"): [
        "Acme",
        "--reads",
        "5",
        "--webhook-token",
        "hush",
        "--event-url",
        "https://e.example",
    ],
    ("partner", "rename"): ["Acme", "Acme 2"],
    ("partner", "suspend"): ["Acme"],
    ("partner", "resume"): ["Acme"],
    ("partner", "delete"): ["Acme", "--yes"],
    ("console", "link"): ["--partner", "Acme"],
    ("console", "end-sessions"): ["--partner", "Acme"],
    ("console", "invite"): ["Ada", "--role", "manager", "--partner", "Acme"],
    ("key", "create"): ["Acme", "--surface", "commerce", "--description", "hush"],
    ("key", "roll"): ["{commerceKeyId}"],
    ("key", "revoke"): ["{marketfrontKeyId}"],
    ("secret", "rotate"): ["Acme"],
    ("webhooks", "enable"): ["Acme", URL],
}


def commands(of: App = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    names = [name for name in of if not name.startswith("-")]
    for name in names:
        yield from commands(of[name], (*path, name))
    if not names:
        yield path


def trail(shell: Shell, *options: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = shell.json("audit", *options)["entries"]
    return listed


async def disable(database_url: str, partner: str) -> None:
    async with Database.open(database_url) as db, db.write() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        await endpoint_health.insert_failing(tx, owner.id, URL, since=clock.now())
        assert await endpoint_health.disable(tx, owner.id, URL, reason="down", now=clock.now())


async def act_with(database_url: str, key_id: UUID, console: str, itself: str) -> None:
    async with Database.open(database_url) as db:
        for action, by in ((console, f"key:{key_id}"), (itself, None)):
            async with db.write() as tx:
                key = await credentials.get_key(tx, str(key_id))
                set_context(WorkContext(action=action, key_id=key_id, console=by, partner_id=key.partner_id))
                await audit(tx, "store")


def test_every_command_only_reads_or_is_audited() -> None:
    assert set(commands()) == READS | PROCESSES | ELSEWHERE | set(CHANGES)


@pytest.mark.parametrize("command", CHANGES, ids=" ".join)
def test_a_command_that_changes_something_is_audited_with_its_user(
    shell: Shell, database_url: str, command: tuple[str, ...]
) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "both")
    asyncio.run(disable(database_url, made["partnerId"]))
    shell(*command, *(one.format(**made) for one in CHANGES[command]))
    newest = trail(shell, "--action", " ".join(command))[0]
    assert newest["actor"] == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert newest["requestId"] is newest["surface"] is None
    if command != ("partner", "create"):
        assert newest["partnerId"] == made["partnerId"]
    told = shell("audit")
    for hidden in ("hush", "whsec_", made["commerceKey"], made["signingSecret"]):
        assert hidden not in told


def test_a_refused_command_leaves_no_entry(shell: Shell) -> None:
    shell("partner", "create", "", "--kind", "both", code=1)
    assert trail(shell) == []
    assert "Nothing was changed" in shell("audit")


@on_both
def test_entries_are_listed_newest_first_in_pages_and_by_partner_and_action(shell: Shell) -> None:
    made = [shell.json("partner", "create", f"P{number}", "--kind", "commerce") for number in range(3)]
    shell("secret", "rotate", "P1")
    assert [one["partnerId"] for one in trail(shell, "--action", "partner create")] == [
        one["partnerId"] for one in reversed(made)
    ]
    assert {one["action"] for one in trail(shell, "--partner", "P1")} == {"partner create", "secret rotate"}
    first = json.loads(shell("audit", "--limit", "3", "--json"))
    rest = json.loads(shell("audit", "--before", first["nextBefore"], "--json"))
    assert rest["nextBefore"] is None
    assert [*first["entries"], *rest["entries"]] == trail(shell)
    assert "mercato audit --before" in (shell("audit", "--limit", "1"), shell.err)[1]


def test_partners_and_keys_are_named_and_json_has_their_ids_too(shell: Shell, database_url: str) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "commerce")
    shell("key", "revoke", made["commerceKeyId"])
    asyncio.run(act_with(database_url, UUID(made["commerceKeyId"]), "through the console", "by itself"))
    prefix = made["commerceKey"][: len("mk_commerce_") + PREFIX_LENGTH]
    entries = {one["action"]: one for one in trail(shell)}
    by_itself, console = entries["by itself"], entries["through the console"]
    revoked, created = entries["key revoke"], entries["partner create"]
    assert (created["subjectId"], created["subjectName"]) == (made["partnerId"], "Acme")
    assert (revoked["subjectId"], revoked["subjectName"]) == (made["commerceKeyId"], prefix)
    assert {one["partnerName"] for one in (revoked, console, by_itself)} == {"Acme"}
    assert (console["actor"], console["actorName"]) == (
        f"console:key:{made['commerceKeyId']}",
        f"console:key:{prefix}",
    )
    assert (by_itself["actorName"], created["actorName"]) == (f"key:{prefix}", None)
    shown = shell("audit")
    for name in ("Acme", f"key:{prefix}", f"key {prefix}"):
        assert name in shown
    assert made["commerceKeyId"] not in shown
    assert made["partnerId"] not in shown


def test_what_was_deleted_is_listed_by_its_id(shell: Shell) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "commerce")
    shell("partner", "delete", "Acme", "--yes")
    assert made["partnerId"] in shell("audit")
    assert {one["partnerName"] for one in trail(shell)} == {None}


@on_both
def test_since_leaves_out_what_is_older(shell: Shell, database_url: str) -> None:
    shell.json("partner", "create", "Old", "--kind", "commerce")

    async def age() -> None:
        then = clock.now() - timedelta(days=3)
        async with Database.open(database_url) as db, db.write() as tx:
            await tx.execute(update(entries).values(id=first_id(then), at=then))

    asyncio.run(age())
    new = shell.json("partner", "create", "New", "--kind", "commerce")["partnerId"]
    assert [one["partnerId"] for one in trail(shell, "--since", "2d")] == [new]
    assert len(trail(shell, "--since", "4d")) == 2
    for days, count in ((2, 1), (4, 2)):
        since = rfc3339(clock.now() - timedelta(days=days))
        assert len(trail(shell, "--since", since)) == count, "an instant, as the other lists take it"


def test_resealing_is_audited(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.json("partner", "create", "Acme", "--kind", "commerce")
    old = (shell.data_dir / FILE).read_text().strip()
    monkeypatch.setenv("MERCATO_ENCRYPTION_KEYS", f"{'A' * 43},{old}")
    shell("secret", "reseal")
    shell("secret", "reseal")
    assert [one["detail"] for one in trail(shell, "--action", "secret reseal")] == [{"resealed": 1}]


def test_a_backup_is_audited_whatever_tool_has_made_it(
    shell: Shell, tmp_path: Path, database_url: str
) -> None:
    shell.json("partner", "create", "Acme", "--kind", "commerce")
    shell("backup", "--made")
    details: list[dict[str, str]] = [{}]
    if database_url.startswith("sqlite"):
        shell("backup", str(tmp_path / "copy.db"))
        details = [{"to": "copy.db"}, {}]
    assert [one["detail"] for one in trail(shell, "--action", "backup")] == details
    for wrong in ((), ("--made", str(tmp_path / "other.db"))):
        shell("backup", *wrong, code=2)


def test_a_restore_is_audited(fresh: Shell, tmp_path: Path) -> None:
    fresh.json("partner", "create", "Acme", "--kind", "commerce")
    fresh("backup", str(tmp_path / "copy.db"))
    fresh("restore", str(tmp_path / "copy.db"), "--replace")
    newest = trail(fresh)[0]
    assert (newest["action"], newest["subjectType"]) == ("restore", "database")
    assert newest["detail"] == {"from": "copy.db"}


async def test_the_actor_of_background_work_is_the_service(database_url: str) -> None:
    async with Database.open(database_url) as db, db.write() as tx:
        set_context(WorkContext(action="webhook.deliver"))
        await audit(tx, "endpoint", detail={"enabled": False})
        row = await tx.first(entries.select())
    assert row is not None
    assert (row.actor, row.action) == ("service", "webhook.deliver")

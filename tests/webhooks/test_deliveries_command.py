"""`mercato webhooks list|show|replay`: deliveries of all partners, and redelivery."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import insert, select, update
from tests.databases import mostly_sqlite, on_both
from tests.partners.test_commands import Shell, fresh, shell

from mercato.features.partners.model import Surface
from mercato.features.webhooks.deliveries import CallRecord, record_store_call
from mercato.features.webhooks.endpoint_health import disable as disable_endpoint
from mercato.features.webhooks.endpoint_health import insert_failing
from mercato.features.webhooks.model import CallResult, StoreCall
from mercato.features.webhooks.outbox import NewEvent, Recipient, push
from mercato.features.webhooks.queries import body_of, with_body
from mercato.features.webhooks.tables import deliveries, delivery_attempts, failing_endpoints
from mercato.platform.db.engine import Database
from mercato.platform.db.tables import jobs
from mercato_contract import clock
from mercato_contract.clock import first_id, new_id
from mercato_contract.events import EventType
from mercato_contract.webhooks import DeliveryStatus

pytestmark = mostly_sqlite

__all__ = ["fresh", "shell"]

URL = "https://pos.example/hooks?key=hush"


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


class Sent:
    """Two partners, and what they were sent: `failed` (with an attempt), `old`, `event` and `question`."""

    def __init__(self, shell: Shell, url: str) -> None:
        made = shell.json(
            "partner",
            "create",
            "Acme",
            "--kind",
            "both",
            "--webhook-token",
            "tk_hush",
            "--webhook-origin",
            URL,
        )
        self.partner = UUID(made["partnerId"])
        self.secret: str = made["signingSecret"]
        self.other = UUID(shell.json("partner", "create", "Other", "--kind", "commerce")["partnerId"])
        self.url = url
        self.failed = self.push(status="failed", attempts=1, error="The receiver answered 503.")
        self.event = self.push(
            partner_id=self.other, type="order.updated", surface=Surface.MARKETFRONT, key="x"
        )
        self.old = self.push(age=timedelta(days=3), status="failed")
        self.question = new_id()
        asyncio.run(self._prepare())

    def push(self, *, age: timedelta = timedelta(0), key: str = "", **changes: Any) -> UUID:
        delivery_id = UUID(int=first_id(clock.now() - age).int + len(changes) + 1) if age else new_id()
        columns: dict[str, Any] = {
            name: changes.pop(name) for name in ("status", "attempts", "error") if name in changes
        }
        asyncio.run(self._push(delivery_id, changes, columns))
        return delivery_id

    async def _push(self, delivery_id: UUID, changes: dict[str, Any], columns: dict[str, Any]) -> None:
        recipient = Recipient(
            changes.pop("partner_id", self.partner), changes.pop("surface", Surface.COMMERCE), URL
        )
        given: dict[str, Any] = {
            "delivery_id": delivery_id, "webhook_id": new_id(), "type": "catalog.sync.failed",
            "data": {"status": "failed"}, "traceparent": "", "store_id": new_id(),
        }  # fmt: skip
        async with Database.open(self.url) as db, db.write() as tx:
            await push(tx, NewEvent(**given | changes), to=recipient, now=clock.now())
            if columns:
                ended = {"next_attempt_at": None, **columns}
                await tx.execute(update(deliveries).where(deliveries.c.id == delivery_id).values(ended))
            for number in range(columns.get("attempts", 0)):
                made = {
                    "number": number + 1,
                    "status": 503,
                    "error": columns["error"],
                    "reply": "<h1>down</h1>",
                }
                row = {"delivery_id": delivery_id, "at": clock.now(), "ms": 12, **made}
                await tx.execute(insert(delivery_attempts).values(row))

    async def _prepare(self) -> None:
        call = StoreCall(
            store_id=new_id(),
            partner_id=self.partner,
            url=URL,
            webhook_id=new_id(),
            body=b"{}",
            traceparent="",
        )
        result = CallResult(at=clock.now(), ms=3, status=500, error="The store answered 500.")
        async with Database.open(self.url) as db, db.write() as tx:
            record = CallRecord(
                id=self.question, type=EventType.ORDER_VALIDATE, call=call, body=b"{}", results=[result],
                status=DeliveryStatus.FAILED, at=clock.now(),
            )  # fmt: skip
            await record_store_call(tx, record)
            await insert_failing(tx, self.partner, URL, since=clock.now())

    def row(self, delivery_id: UUID) -> Any:
        async def read() -> Any:
            async with Database.open(self.url) as db, db.read() as tx:
                columns = [column for column in deliveries.c if column.name != "body"]
                return await tx.first(with_body(select(*columns)).where(deliveries.c.id == delivery_id))

        return asyncio.run(read())

    def due(self) -> list[str]:
        async def read() -> list[str]:
            async with Database.open(self.url) as db, db.read() as tx:
                ready = select(deliveries.c.id).join(jobs, jobs.c.id == deliveries.c.job_id)
                return sorted(str(row.id) for row in await tx.all(ready.where(jobs.c.state == "ready")))

        return asyncio.run(read())


@pytest.fixture
def sent(shell: Shell, database_url: str) -> Sent:
    return Sent(shell, database_url)


def ids(shell: Shell, *options: str) -> list[str]:
    return [one["id"] for one in shell.json("webhooks", "list", *options)["deliveries"]]


@on_both
def test_deliveries_are_listed_by_partner_status_type_and_time(shell: Shell, sent: Sent) -> None:
    assert ids(shell) == [str(sent.question), str(sent.event), str(sent.failed), str(sent.old)]
    assert ids(shell, "--partner", "Other") == [str(sent.event)]
    assert ids(shell, "--status", "pending") == [str(sent.event)]
    assert ids(shell, "--type", "order") == [str(sent.question), str(sent.event)]
    assert ids(shell, "--type", "order.updated") == [str(sent.event)]
    assert ids(shell, "--type", "ord") == []
    assert ids(shell, "--since", "2d", "--type", "catalog.sync") == [str(sent.failed)]
    instant = (clock.now() - timedelta(days=4)).isoformat()
    assert ids(shell, "--since", instant, "--status", "failed") == [
        str(sent.question),
        str(sent.failed),
        str(sent.old),
    ]


@on_both
def test_a_page_says_where_the_next_one_begins(shell: Shell, sent: Sent) -> None:
    first = shell.json("webhooks", "list", "--limit", "3")
    assert len(first["deliveries"]) == 3
    rest = shell.json("webhooks", "list", "--before", first["nextBefore"])
    assert ([one["id"] for one in rest["deliveries"]], rest["nextBefore"]) == ([str(sent.old)], None)
    shell("webhooks", "list", "--limit", "1")
    assert "mercato webhooks list --before" in shell.err


@pytest.mark.parametrize("command", [("webhooks", "list"), ("audit",), ("job", "list")], ids=" ".join)
@pytest.mark.parametrize("limit", ["0", "-1", "1001"])
def test_a_limit_out_of_range_is_refused_with_its_range(
    shell: Shell, command: tuple[str, ...], limit: str
) -> None:
    assert shell(*command, "--limit", limit, code=2) == ""
    assert shell.err == "--limit is from 1 to 1000.\n"


def test_the_tables_fit_into_80_columns_and_show_no_secret(shell: Shell, sent: Sent) -> None:
    output = shell("webhooks", "list") + shell("webhooks", "show", str(sent.failed))
    assert all(len(line) <= 80 for line in output.splitlines())
    assert "\x1b" not in output
    assert "https://pos.example/hooks/catalog-sync?***" in output
    for hidden in ("hush", sent.secret):
        assert hidden not in output + shell("webhooks", "show", str(sent.failed), "--json")


def test_a_delivery_is_shown_with_its_attempts_headers_and_body(shell: Shell, sent: Sent) -> None:
    output = shell("webhooks", "show", str(sent.failed))
    for words in (
        "503, 12 ms",
        "answer: <h1>down</h1>",
        '"type": "catalog.sync.failed"',
        "Bearer ***",
        "--yes",
    ):
        assert words in output
    shown = shell.json("webhooks", "show", str(sent.failed))
    assert (shown["partner"], shown["attempts"], shown["attemptLog"][0]["status"]) == ("Acme", 1, 503)
    assert shown["headers"]["webhook-id"] == shown["webhookId"]
    assert shown["headers"]["webhook-signature"] == "v1,***"
    # Also by its webhook-id. An event URL never gets the token.
    event = shell.json("webhooks", "show", str(sent.row(sent.event).webhook_id))
    assert (event["id"], "Authorization" in event["headers"]) == (str(sent.event), False)
    assert event["nextAttemptAt"] is not None
    assert "not sent again" in " ".join(shell("webhooks", "show", str(sent.question)).split())
    shell("webhooks", "show", str(new_id()), code=1)
    assert "mercato webhooks list" in shell.err


def test_the_body_option_prints_the_signed_bytes(shell: Shell, sent: Sent) -> None:
    assert shell("webhooks", "show", str(sent.failed), "--body").encode() == body_of(sent.row(sent.failed))


@on_both
def test_a_delivery_that_a_receiver_accepted_is_sent_whatever_it_is_about(shell: Shell, sent: Sent) -> None:
    delivery = str(sent.push(status="succeeded", attempts=0))
    for command in (("list", "--status", "succeeded"), ("show", delivery)):
        output = shell("webhooks", *command)
        assert "  sent     catalog.sync.failed" in output
        assert "succeeded" not in output
    assert shell.json("webhooks", "show", delivery)["status"] == "succeeded", "as in the API"
    assert "sent" in shell("webhooks", "replay", "--since", "1h")


@on_both
def test_a_replay_only_counts_without_yes(shell: Shell, sent: Sent) -> None:
    before = sent.due()
    counted = shell.json("webhooks", "replay", "--since", "2h", "--failed")
    assert (counted["done"], counted["count"]) == (False, 1)
    assert "Nothing was sent" in (shell("webhooks", "replay", "--since", "4d"), shell.err)[1]
    assert sent.due() == before
    assert shell.json("webhooks", "replay", "--since", "4d", "--failed", "--yes")["count"] == 2
    assert {str(sent.failed), str(sent.old)} <= set(sent.due())
    assert sent.row(sent.failed).status == "pending"
    assert sent.row(sent.question).status == "failed"
    trail = shell.json("audit", "--action", "webhooks replay")["entries"]
    assert {one["subjectId"] for one in trail} == {str(sent.failed), str(sent.old)}
    assert "nothing to send again" in shell("webhooks", "replay", "--since", "2h", "--failed")


@on_both
def test_a_replay_of_many_pages_sends_each_once(
    shell: Shell, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercato.features.webhooks.operators._PAGE", 2)
    more = [sent.push(status="failed") for _ in range(4)]
    output = shell("webhooks", "replay", "--since", "1h", "--partner", "Acme", "--type", "catalog", "--yes")
    assert ("failed" in output, "5 sent again" in shell.err) == (True, True)
    assert {str(one) for one in (*more, sent.failed)} <= set(sent.due())


@on_both
def test_named_deliveries_are_sent_again_and_their_endpoints_enabled(shell: Shell, sent: Sent) -> None:
    async def disable() -> None:
        async with Database.open(sent.url) as db, db.write() as tx:
            target = sent_row.url
            await insert_failing(tx, sent.partner, target, since=clock.now())
            assert await disable_endpoint(tx, sent.partner, target, reason="410", now=clock.now())

    async def disabled() -> list[Any]:
        async with Database.open(sent.url) as db, db.read() as tx:
            return list(
                await tx.all(select(failing_endpoints).where(failing_endpoints.c.disabled_at.is_not(None)))
            )

    sent_row = sent.row(sent.failed)
    asyncio.run(disable())
    assert "Its endpoint is disabled" in shell("webhooks", "show", str(sent.failed))
    shell("webhooks", "replay", str(sent.failed))
    assert "Nothing was sent" in shell.err
    assert len(asyncio.run(disabled())) == 1
    shell("webhooks", "replay", str(sent.failed), "--yes")
    assert asyncio.run(disabled()) == []
    assert str(sent.failed) in sent.due()
    shell("webhooks", "replay", str(sent.question), str(new_id()), "--yes", code=1)
    assert "A validation is not sent again" in shell.err
    assert "There is no delivery" in shell.err


@on_both
def test_a_missing_delivery_is_reported_without_advising_yes(shell: Shell, sent: Sent) -> None:
    shell("webhooks", "replay", str(new_id()), code=1)
    assert "See: mercato webhooks list" in shell.err
    assert "--yes" not in shell.err


@pytest.mark.parametrize(
    "wrong",
    [
        ["replay"],
        ["replay", "00000000-0000-0000-0000-000000000000", "--since", "2h"],
        ["replay", "00000000-0000-0000-0000-000000000000", "--failed"],
        ["replay", "--since", "yesterday"],
        ["replay", "--since", "2026-01-31T18:30:00"],
        ["replay", "no-uuid"],
        ["list", "--status", "gone"],
        ["list", "--since", "2h", "--bogus"],
        ["show"],
        ["show", "00000000-0000-0000-0000-000000000000", "--body", "--json"],
    ],
    ids=lambda value: "-".join(value).replace("00000000-0000-0000-0000-000000000000", "id"),
)
def test_wrong_arguments_exit_with_2_and_advice(wrong: list[str], fresh: Shell) -> None:
    fresh("webhooks", *wrong, code=2)
    assert fresh.err.strip()


@on_both
def test_no_deliveries_and_an_unknown_partner_are_reported(shell: Shell) -> None:
    assert "There are none" in (shell("webhooks", "list"), shell.err)[1]
    shell("webhooks", "list", "--partner", "Nobody", code=1)
    assert "mercato partner list" in shell.err


def test_a_missing_database_is_reported(fresh: Shell) -> None:
    fresh("webhooks", "list", code=2)
    assert "--data-dir" in fresh.err

"""Retention: orders stay, customers don't."""

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from msgspec.structs import replace
from sqlalchemy import func, insert, select, update
from structlog.testing import capture_logs
from tests.api.examples import in_turn
from tests.api.trade import ADDRESS, CUSTOMER, MERCHANT, ORDERS, PLACE, VALIDATE, Trade, tea, trade
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.forks import start
from tests.processes.test_serve import environment
from tests.service import MerchantServer, Service, service
from tests.stored import text_of
from tests.waiting import PATIENCE

import mercato.features.upkeep
from mercato.features.catalogs import periods
from mercato.features.catalogs.tables import catalog_bodies, catalog_runs, catalog_sets
from mercato.features.compression import decompress
from mercato.features.events.tables import events
from mercato.features.orders.privacy import erase_all, erase_customer, erase_validations
from mercato.features.orders.tables import idempotency_keys, order_history, orders
from mercato.features.upkeep import BATCH, REST, Prune, Upkeep
from mercato.features.webhooks.tables import deliveries, delivery_attempts
from mercato.platform.db.audit import list_entries
from mercato.platform.db.backup import backup
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.db.tables import jobs
from mercato.platform.db.url import sqlite_path
from mercato_contract import clock

pytestmark = mostly_sqlite

DELIVERY = {
    "mode": "DELIVERY_BY_MERCHANT",
    "scheduleType": "ASAP",
    "deliveryType": "DOOR_TO_DOOR",
    "address": ADDRESS,
    "instructions": "Ring twice at Lovelace's",
}


async def silent(_request: web.Request, _body: bytes) -> web.Response:
    """Give an unusable answer."""
    return web.Response(status=500)


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop, event_url=shop.base + "/events")


def upkeep(here: Trade, days: float) -> Upkeep:
    later = clock.now() + timedelta(days=days)
    return Upkeep(here.mercato.app.db, lambda: later, catalog_days=30, delivery_days=30)


async def everything(here: Trade) -> str:
    """Return all that the database holds, as text."""
    async with here.mercato.app.db.read() as tx:
        return await text_of(
            tx,
            orders,
            deliveries,
            events,
            delivery_attempts,
            order_history,
            idempotency_keys,
            jobs,
        )


async def settled(here: Trade) -> None:
    await here.mercato.until(
        here.front,
        "/v1/marketfront/webhook-deliveries",
        lambda page: all(one["status"] == "succeeded" for one in page["deliveries"]),
    )
    await here.mercato.app.validation_log.flush()


async def test_an_order_loses_its_customer_after_the_retention_period(here: Trade):
    asked = here.order(tea() | {"note": "No sugar for Ada"}, fulfillment=DELIVERY, note="Beware of the dog")
    placed = await here.placed(asked)
    await settled(here)
    for said in (CUSTOMER["email"], "No sugar", "Beware"):
        assert said in await everything(here)
    await upkeep(here, 89.9).once()
    assert "customer" in (await here.front.get(f"{ORDERS}/{placed['orderId']}")).json()
    await upkeep(here, 90.1).once()
    kept = await everything(here)
    for said in (*CUSTOMER.values(), *ADDRESS.values(), "203.0.113.7", "Ring twice", "No sugar", "Beware"):
        assert said not in kept
    for client, path in ((here.front, ORDERS), (here.pos, MERCHANT)):
        order = (await client.get(f"{path}/{placed['orderId']}")).json()
        assert "customer" not in order
        assert (order["note"], order["cart"]["lineItems"][0]["note"]) == (None, None)
        assert order["amounts"] == placed["amounts"]
        assert order["fulfillment"]["address"] is None
        assert order["clientContext"] == {"ip": "", "userAgent": ""}, "every order has one"
    events = (await here.front.get("/v1/marketfront/events")).json()["events"]
    contexts = [event["data"]["order"]["clientContext"] for event in events]
    assert contexts == [{"ip": "", "userAgent": ""}] * len(events)


async def test_data_with_the_longest_retention_is_kept(here: Trade):
    placed = await here.placed(here.order(fulfillment=DELIVERY))
    await settled(here)
    longest = Upkeep(
        here.mercato.app.db,
        clock.now,
        catalog_days=36_500,
        delivery_days=36_500,
        run_days=36_500,
        customer_days=36_500,
        audit_days=36_500,
    )
    await longest.once()
    assert "customer" in (await here.front.get(f"{ORDERS}/{placed['orderId']}")).json()


async def test_a_long_backlog_of_one_kind_does_not_delay_the_deletion_of_others(db: Database):
    took: list[str] = []
    left = {"deliveries": 5, "customers": 2}

    def prune(name: str) -> Prune:
        async def delete(_: Write) -> int:
            took.append(name)
            left[name] -= 1
            return BATCH if left[name] else BATCH - 1

        return delete

    upkeep = Upkeep(db, clock.now, catalog_days=1, delivery_days=1, rest=0)
    assert await upkeep.drain([prune(name) for name in left]) == []
    assert took == ["deliveries", "customers"] * 2 + ["deliveries"] * 3


async def test_deletion_pauses_after_each_full_batch_in_proportion_to_its_time(
    db: Database, monkeypatch: pytest.MonkeyPatch
):
    """Requests come first: unpaced deletion competes with them for the whole of its time."""
    pauses: list[float] = []
    instants = iter([10.0, 12.0, 20.0, 21.0, 30.0])
    batches = iter([BATCH, BATCH, 1])

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def delete(_: Write) -> int:
        return next(batches)

    monkeypatch.setattr(mercato.features.upkeep, "sleep", pause)
    monkeypatch.setattr(mercato.features.upkeep, "monotonic", lambda: next(instants))
    assert await Upkeep(db, clock.now, catalog_days=1, delivery_days=1).drain([delete]) == []
    assert pauses == [2.0 * REST, 1.0 * REST]


@pytest.mark.parametrize("fault", [ValueError("a bug"), DatabaseUnavailable("it takes too long")])
@on_both
async def test_a_failed_deletion_is_retried_and_does_not_block_others(
    here: Trade, monkeypatch: pytest.MonkeyPatch, fault: Exception
):
    tries: asyncio.Queue[None] = asyncio.Queue()

    async def stumble(*_: Any, **__: Any) -> int:
        tries.put_nowait(None)
        raise fault

    monkeypatch.setattr(periods, "prune_sets", stumble)
    monkeypatch.setattr(mercato.features.upkeep, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(mercato.features.upkeep, "EVERY_SECONDS", 0.01)
    await here.placed()
    await settled(here)
    running = asyncio.create_task(upkeep(here, 90.1).run())
    async with asyncio.timeout(PATIENCE):
        for _ in range(3):
            await tries.get()
    running.cancel()
    await asyncio.wait([running])
    assert CUSTOMER["email"] not in await everything(here)


@on_both
async def test_an_order_with_many_updates_is_erased_too(here: Trade):
    placed = await here.placed()
    await settled(here)
    async with here.mercato.app.db.write() as tx:
        of_order = deliveries.c.order_id == UUID(placed["orderId"])
        rest = [column for column in deliveries.c if column is not deliveries.c.id]
        hexadecimal = func.lower(func.hex(func.randomblob(16)))
        id_ = hexadecimal if here.mercato.app.db.dialect == "sqlite" else func.gen_random_uuid()
        count = 0
        while count < 34_000:
            # As many again: the database makes them in a part of the time that sending them takes.
            again = select(id_, *rest).where(of_order).limit(34_000 - count)
            await tx.execute(insert(deliveries).from_select(["id", *rest], again))
            count = await tx.scalar(select(func.count()).select_from(deliveries).where(of_order)) or 0
    async with here.mercato.app.db.write() as tx:
        assert await erase_customer(tx, CUSTOMER["email"], after=None, limit=10) == (1, None)
        assert await tx.scalar(select(func.count()).select_from(deliveries).where(of_order)) == 0


async def test_erasing_a_customer_affects_no_other_customer(here: Trade):
    other = CUSTOMER | {"email": "grace@example.com", "firstName": "Grace", "lastName": "Hopper"}
    order, headers = here.order(customer=CUSTOMER | {"phone": "+15550999"}), {"Idempotency-Key": "theirs"}
    placed = (await here.front.post(PLACE, order, headers=headers)).json()
    kept = await here.placed(here.order(customer=other))
    await settled(here)
    async with here.mercato.app.db.write() as tx:
        assert await erase_customer(tx, "ADA@example.com", after=None, limit=10) == (1, None)
        assert await erase_validations(tx, "ADA@example.com", after=None, limit=10) == (1, None)
    assert "ada@example.com" not in await everything(here)
    async with here.mercato.app.db.read() as tx:
        (entry,) = await list_entries(tx, limit=1)
    assert (entry.subject_id, entry.detail) == (placed["orderId"], {"customer": "erased"})
    assert (await here.front.get(f"{ORDERS}/{kept['orderId']}")).json()["customer"]["firstName"] == "Grace"
    again = await here.front.post(PLACE, order, headers=headers)
    assert (again.status, again.json()["orderId"]) == (201, placed["orderId"]), "no second order"
    assert "customer" not in again.json()


async def test_a_dry_run_says_what_an_erasure_would_change_and_changes_nothing(
    here: Trade, database_url: str
):
    placed = await here.placed()
    await settled(here)
    for _ in range(2):
        code, said = await erase(here, CUSTOMER["email"], "--dry-run")
        assert code == 0
        assert "would be erased from 1 order, and 1 recorded validation would be deleted" in said
    code, said = await erase(here, CUSTOMER["email"], "--dry-run", "--json")
    assert json.loads(said[: said.rindex("}") + 1]) == {"orderIds": [placed["orderId"]], "validations": 1}
    shown = (await here.pos.get(f"{MERCHANT}/{placed['orderId']}")).json()
    assert shown["customer"]["email"] == CUSTOMER["email"]
    assert await erase(here, CUSTOMER["email"]) == (0, "Erased from 1 order.\n")


@on_both
async def test_a_customer_is_erased_from_validations_that_no_store_answered(here: Trade):
    other = CUSTOMER | {"email": "grace@example.com", "firstName": "Grace"}
    here.shop.answers["validate"] = silent
    for customer in (CUSTOMER, other, None):
        assert (await here.front.post(VALIDATE, here.order(customer=customer))).status == 503
    found, after = 0, None
    for last in (False, False, False, True):
        async with here.mercato.app.db.write() as tx:
            count, after = await erase_validations(tx, "ADA@example.com", after=after, limit=1)
        found += count
        assert (after is None) is last
    assert found == 1
    kept = await everything(here)
    assert CUSTOMER["email"] not in kept
    assert "grace@example.com" in kept


async def test_a_customer_is_erased_from_validations_that_a_store_answered(here: Trade):
    other = CUSTOMER | {"email": "grace@example.com", "firstName": "Grace"}
    for answer in ({"isValid": True}, {"isValid": False}):
        here.shop.answers["validate"] = answer
        await here.validate(here.order(customer=CUSTOMER))
        await here.mercato.app.validation_log.flush()
    here.shop.answers["validate"] = {"isValid": False}
    await here.validate(here.order(customer=other))
    await here.mercato.app.validation_log.flush()
    async with here.mercato.app.db.write() as tx:
        assert await erase_validations(tx, "ADA@example.com", after=None, limit=10) == (2, None)
    kept = await everything(here)
    assert CUSTOMER["email"] not in kept
    assert "grace@example.com" in kept


async def test_an_erasure_covers_validations_that_wait_to_be_written(here: Trade):
    here.shop.answers["validate"] = {"isValid": False}
    await here.validate(here.order())
    await erase_all(here.mercato.app.db, CUSTOMER["email"])
    await here.mercato.app.validation_log.flush()
    assert CUSTOMER["email"] not in await everything(here)


@pytest.mark.parametrize("answer", [{"isValid": False}, silent])
async def test_a_recorded_validation_is_deleted_when_customers_are_forgotten(here: Trade, answer: Any):
    here.shop.answers["validate"] = answer
    await here.front.post(VALIDATE, here.order())
    await here.mercato.app.validation_log.flush()
    for days, kept in ((6, True), (8, False)):
        await replace(upkeep(here, days), customer_days=7).once()
        assert (CUSTOMER["email"] in await everything(here)) is kept


async def erase(here: Trade, name: str, *options: str) -> tuple[int, str]:
    """Run `mercato customer erase` as a process of its own; return its exit code and what it said."""
    settings = here.mercato.app.settings
    assert settings.database_url is not None
    running = await start(
        "customer", "erase", name, *options,
        env=environment(
            MERCATO_DATABASE_URL=settings.database_url.reveal(), MERCATO_DATA_DIR=str(settings.data_dir)
        ),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await running.communicate()
    assert running.returncode is not None
    return running.returncode, (out + err).decode()


async def compressed_bodies_about(here: Trade, name: str) -> list[bytes]:
    """Return the ends of stored bodies that contain the name; long ones aren't stored in one piece."""
    async with here.mercato.app.db.read() as tx:
        rows = [
            row
            for table in (deliveries, events)
            for row in await tx.all(
                select(table.c.body, orders.c.content).join(
                    orders, orders.c.id == table.c.order_id, isouter=True
                )
            )
        ]
    return [
        row.body[-32:] for row in rows if row.body and name.encode() in decompress(row.body, base=row.content)
    ]


async def raw(path: Path) -> bytes:
    """Return the bytes of a database's files.

    Another process reads them: this one has the database open, and to close a file of it would drop SQLite's locks on
    it. Then the next process to close it assumes that it is the last, and removes the log.
    """
    files = [path.with_name(path.name + end) for end in ("", "-wal")]
    reading = await asyncio.create_subprocess_exec(
        "cat", *(file for file in files if file.exists()), stdout=asyncio.subprocess.PIPE
    )
    return (await reading.communicate())[0]


@only_sqlite
async def test_neither_the_files_nor_a_later_backup_hold_an_erased_customer_while_a_server_runs(
    here: Trade, database_url: str, tmp_path: Path
):
    path = sqlite_path(database_url)
    ours = CUSTOMER | {"firstName": "Adalind", "partnerUserId": "user-99812"}
    for number in range(40):
        other = CUSTOMER | {"email": f"grace{number}@example.com", "firstName": "Grace" * number}
        await here.placed(here.order(customer=other | {"lastName": "Hopper"}))
        await here.placed(here.order(customer=ours | {"lastName": "B" * (6 * number + 1)}))
    here.shop.answers["validate"] = silent
    await here.front.post(VALIDATE, here.order(customer=ours))
    await settled(here)
    bodies = await compressed_bodies_about(here, "Adalind")
    before = await raw(path)
    assert b"Adalind" in before
    assert bodies
    assert all(body in before for body in bodies)
    assert await erase(here, CUSTOMER["email"]) == (0, "Erased from 40 orders.\n")
    backup(path, tmp_path / "copy.db")
    for bytes_ in (await raw(path), await raw(tmp_path / "copy.db")):
        assert b"grace7@example.com" in bytes_
        for trace in (CUSTOMER["email"].encode(), b"Adalind", b"user-99812"):
            assert trace not in bytes_
        assert not [body for body in bodies if body in bytes_]


@only_sqlite
async def test_an_erasure_says_when_a_reader_keeps_the_log_in_use(here: Trade, database_url: str):
    await here.placed()
    await settled(here)
    path = sqlite_path(database_url)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM orders").fetchone()
        async with here.mercato.app.db.write() as tx:
            await erase_customer(tx, CUSTOMER["email"], after=None, limit=10)
        assert not await here.mercato.app.db.empty_log(seconds=0.3)
        # Others write meanwhile.
        async with here.mercato.app.db.write() as tx:
            await erase_customer(tx, "nobody", after=None, limit=10)
        reader.execute("COMMIT")
    assert await here.mercato.app.db.empty_log(seconds=5)
    assert path.with_name(path.name + "-wal").stat().st_size == 0


@in_turn("name", ["JÖRG@EXAMPLE.COM", "jörg@example.com", "Ünal_100%\\"])
async def test_a_customer_is_found_in_any_letter_case(here: Trade, name: str):
    await here.placed(here.order(customer=CUSTOMER | {"email": "JÖRG@example.com", "phone": "ÜNAL_100%\\"}))
    await here.placed()
    async with here.mercato.app.db.write() as tx:
        assert await erase_customer(tx, name, after=None, limit=10) == (1, None)


async def test_expired_data_is_deleted_even_if_an_earlier_step_failed(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    tried: asyncio.Queue[None] = asyncio.Queue()

    async def once(_self: Upkeep) -> None:
        tried.put_nowait(None)
        raise RuntimeError("a bug")

    monkeypatch.setattr(Upkeep, "once", once)
    monkeypatch.setattr("mercato.features.upkeep.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("mercato.features.upkeep.EVERY_SECONDS", 0.0)
    task = asyncio.create_task(upkeep(here, 0).run())
    with capture_logs() as logs:
        async with asyncio.timeout(PATIENCE):
            await tried.get()
            await tried.get()
    task.cancel()
    assert "bug in upkeep" in [entry["event"] for entry in logs]


async def test_a_background_task_that_ends_by_a_bug_is_logged(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def ends(_self: Upkeep) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Upkeep, "run", ends)
    with capture_logs() as logs:
        async with service(database_url, tmp_path / "data") as mercato:
            assert (await mercato.partner())[0]
    errors = [(line["event"], line["task"]) for line in logs if line["log_level"] == "error"]
    assert errors == [("bug: a background task has failed", "upkeep")]


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_customer_who_is_erased_during_the_call_of_the_store_stays_erased(
    here: Trade, accepts: bool
):  # a column of the table
    asked, answer = asyncio.Event(), asyncio.Event()

    async def late(_request: web.Request, body: bytes) -> web.Response:
        asked.set()
        await answer.wait()
        return web.json_response(
            {"accepted": True} if accepts else json.loads(body), status=200 if accepts else 422
        )

    here.shop.answers["place"] = late
    token = await here.token(here.order())
    await here.mercato.app.validation_log.flush()
    placing = asyncio.create_task(here.place(here.order(validatedOrderToken=token)))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    async with here.mercato.app.db.write() as tx:
        assert await erase_customer(tx, CUSTOMER["email"], after=None, limit=10) == (1, None)
        assert await erase_validations(tx, CUSTOMER["email"], after=None, limit=10) == (1, None)
    answer.set()
    assert (await placing).status == (201 if accepts else 400)
    await settled(here)
    assert CUSTOMER["email"] not in await everything(here)


@in_turn("name", ["%", "_", '"', "ada", "{}", "\\", "ADA@EXAMPLE.COM "])
async def test_an_unknown_name_erases_no_customer(here: Trade, name: str):
    await here.placed()
    async with here.mercato.app.db.write() as tx:
        assert await erase_customer(tx, name, after=None, limit=10) == (0, None)
    assert CUSTOMER["email"] in await everything(here)


@on_both
async def test_old_runs_are_deleted_except_the_newest_of_an_onboarding_or_a_store(here: Trade):
    store = here.store["storeId"]
    first: Any = await here.mercato.run(here.pos, store, here.shop.host({"items": {}}, "/empty.json"))
    second: Any = await here.mercato.run(here.pos, store, here.shop.host(b"[]", "/broken.json"))
    runs = f"/v1/commerce/stores/{store}/catalog-ingest"
    await upkeep(here, 29.9).once()
    assert len((await here.pos.get(runs)).json()["runs"]) == 2
    await upkeep(here, 30.1).once()
    shown = (await here.pos.get(runs)).json()["runs"]
    assert [run["catalogIngestId"] for run in shown] == [second["catalogIngestId"]]
    gone = await here.pos.get(f"{runs}/{first['catalogIngestId']}/status")
    assert gone.json()["errorCode"] == "CATALOG_INGEST_NOT_FOUND"
    onboarding = await here.pos.get(f"/v1/commerce/onboarding/stores/{here.store['onboardingId']}")
    assert onboarding.json()["status"] == "active"


@on_both
async def test_a_run_that_has_not_ended_is_never_too_old(here: Trade):
    store = here.store["storeId"]
    await here.mercato.run(here.pos, store, here.shop.host({"items": {}}, "/empty.json"))
    await here.mercato.run(here.pos, store, here.shop.host({"items": {}}, "/empty.json"))
    async with here.mercato.app.db.write() as tx:
        await tx.execute(update(catalog_runs).values(status="pulling"))
    await upkeep(here, 400).once()
    async with here.mercato.app.db.read() as tx:
        assert len(await tx.all(select(catalog_runs))) == 3


@on_both
async def test_the_catalog_of_a_cancelled_onboarding_is_deleted_like_a_superseded_one(here: Trade):
    pos, db = here.pos, here.mercato.app.db
    url = here.shop.host({"items": {}}, "/empty.json")
    cancelled: Any = await here.mercato.onboard(pos, url, name="cancelled")
    waiting: Any = await here.mercato.onboard(pos, url, name="waiting")
    onboardings = "/v1/commerce/onboarding/stores"
    assert (await pos.call("DELETE", f"{onboardings}/{cancelled['onboardingId']}")).status == 204

    async def owners() -> set[str]:
        async with db.read() as tx:
            sets = await tx.all(select(catalog_sets.c.id, catalog_sets.c.owner_id))
            bodies = await tx.all(select(catalog_bodies.c.set_id).distinct())
        assert {one.id for one in sets} == {one.set_id for one in bodies}
        return {str(one.owner_id) for one in sets}

    await upkeep(here, 29.9).once()
    assert cancelled["onboardingId"] in await owners()
    await upkeep(here, 30.1).once()
    assert await owners() == {here.store["onboardingId"], waiting["onboardingId"]}
    active = await pos.post(f"{onboardings}/{waiting['onboardingId']}/activate")
    assert active.status == 200

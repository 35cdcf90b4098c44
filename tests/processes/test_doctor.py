"""`mercato doctor` reports each problem with advice, and none for a healthy service."""

import asyncio
import json
import re
import resource
import shutil
from collections import namedtuple
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import insert, update
from tests.console.provider import provider
from tests.databases import only_postgresql, only_sqlite, with_database
from tests.forks import start
from tests.partners.test_commands import Shell, fresh, shell
from tests.partners.test_shared_limits import redis
from tests.processes.test_serve import environment
from tests.waiting import PATIENCE

from mercato.app import GRACE
from mercato.cli import doctor
from mercato.features import doctor as checks
from mercato.features.orders.tables import orders
from mercato.features.partners import encryption
from mercato.features.partners.vault import FILE
from mercato.features.webhooks.tables import deliveries, failing_endpoints, failing_stores
from mercato.platform import processes
from mercato.platform.db import health
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.tables import jobs
from mercato.platform.jobs.worker import Worker
from mercato.settings import Settings
from mercato_contract import clock
from mercato_contract.texts import Secret

__all__ = ["fresh", "shell"]

ALL = [
    "settings",
    "schema",
    "storage",
    "replication",
    "clock",
    "open files",
    "encryption",
    "workers",
    "due work",
    "dead work",
]


def every(url: str) -> list[str]:
    """Return the checks of a database: an embedded one has no replicas."""
    return ALL if url.startswith("postgres") else [one for one in ALL if one != "replication"]


def report(shell: Shell, *, code: int) -> dict[str, Any]:
    """Return the checks by name."""
    said = json.loads(shell("doctor", "--json", code=code))
    assert said["ok"] is (code == 0)
    return {one["name"]: one for one in said["checks"]}


async def examined(shell: Shell, url: str, *, code: int, works: bool = True) -> dict[str, Any]:
    """Return the doctor's checks with or without a running worker."""
    async with Database.open(url) as db:
        worker = Worker(db, {})
        running = asyncio.create_task(worker.run())
        if works:
            await until_at_work(db)
        else:
            await worker.stop(grace=GRACE)
        try:
            return await asyncio.to_thread(report, shell, code=code)
        finally:
            await worker.stop(grace=GRACE)
            await running


async def until_at_work(db: Database) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            async with db.read() as tx:
                if (await checks._workers(tx)).state is checks.State.OK:
                    return
            await asyncio.sleep(0.01)


async def write(url: str, *statements: Any) -> None:
    async with Database.open(url) as db, db.write() as tx:
        for statement in statements:
            await tx.execute(statement)


def job(**columns: Any) -> Any:
    then = clock.now() - timedelta(minutes=5)
    row = {"kind": "webhook.deliver", "ordering_key": "l", "group_key": "", "payload": "{}", "run_at": then}
    return insert(jobs).values(**row | {"enqueued_at": then} | columns)


def test_a_healthy_service_passes_every_check(shell: Shell, database_url: str) -> None:
    shell.json("partner", "create", "Acme", "--kind", "both", "--webhook-token", "t")
    found = asyncio.run(examined(shell, database_url, code=0))
    assert list(found) == [*every(database_url), "endpoints", "orders", "stores", "deliveries"]
    assert {one["state"] for one in found.values()} == {"ok"}
    assert not any("advice" in one for one in found.values())


def test_work_without_a_worker_is_reported_with_its_age_and_kind(shell: Shell, database_url: str) -> None:
    asyncio.run(write(database_url, job(state="ready"), job(state="dead", ordering_key="m")))
    shell.json("partner", "create", "Acme", "--kind", "both")
    found = asyncio.run(examined(shell, database_url, code=1, works=False))
    assert found["workers"]["state"] == found["due work"]["state"] == found["dead work"]["state"] == "wrong"
    assert "mercato worker" in found["workers"]["advice"]
    assert re.search(r"due for 3\d\d ", found["due work"]["said"])
    assert "1 of webhook.deliver" in found["dead work"]["said"]


def test_a_disabled_endpoint_is_a_note_and_not_a_failure(shell: Shell, database_url: str) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "both")
    row = {"partner_id": UUID(made["partnerId"]), "url": "http://x", "failing_since": clock.now()}
    disabled = insert(failing_endpoints).values(**row, disabled_at=clock.now(), disabled_reason="down")
    asyncio.run(write(database_url, disabled))
    found = asyncio.run(examined(shell, database_url, code=0))
    assert found["endpoints"]["state"] == "note"
    assert "mercato webhooks enable" in found["endpoints"]["advice"]


def failing(partner_id: UUID, store_id: UUID, *, calls: int) -> Any:
    at = clock.now() - timedelta(days=20)
    return insert(failing_stores).values(
        store_id=store_id, partner_id=partner_id, failing_since=at, failed_at=at, calls=calls
    )


def test_a_store_whose_last_calls_failed_is_named_however_long_ago(shell: Shell, database_url: str) -> None:
    off, once, hidden = uuid4(), uuid4(), uuid4()
    partner, suspended = (
        UUID(shell.json("partner", "create", name, "--kind", "both")["partnerId"]) for name in ("A", "B")
    )
    shell("partner", "suspend", "B")
    rows = [
        failing(partner, off, calls=10),
        failing(partner, once, calls=1),
        failing(suspended, hidden, calls=9),
    ]
    asyncio.run(write(database_url, *rows))
    found = asyncio.run(examined(shell, database_url, code=0))["stores"]
    assert found["state"] == "note"
    assert f"{off} (10 calls since " in found["said"]
    assert str(once) not in found["said"], "one failure isn't a dead store"
    assert str(hidden) not in found["said"], "a suspended partner's stores take no orders"
    assert "mercato store list --in-trouble" in found["advice"]


def test_an_address_that_fails_for_an_hour_is_reported(shell: Shell, database_url: str) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "both")
    for minutes, state in ((50, "ok"), (70, "note")):
        since = clock.now() - timedelta(minutes=minutes)
        row = {"partner_id": UUID(made["partnerId"]), "url": f"http://x/{minutes}", "failing_since": since}
        asyncio.run(write(database_url, insert(failing_endpoints).values(**row)))
        found = asyncio.run(examined(shell, database_url, code=0))["deliveries"]
        assert found["state"] == state
    assert "1 address of 1 partner" in found["said"]


def test_an_order_without_an_answer_is_reported_with_its_age(shell: Shell, database_url: str) -> None:
    at = clock.now() - timedelta(minutes=5)
    texts = (
        "partner_store_id",
        "status",
        "errors",
        "currency",
        "fulfillment",
        "traceparent",
    )
    order: dict[str, Any] = {
        "id": uuid4(),
        "partner_id": uuid4(),
        "storefront_id": uuid4(),
        "store_id": uuid4(),
    }
    order |= dict.fromkeys(texts, "{}") | {"state": "open", "answer": "waiting", "total": 1, "content": b""}
    order |= {"sequence": 1, "entries": 1, "created_at": at, "updated_at": at}
    waiting: dict[str, Any] = dict.fromkeys(("id", "partner_id", "webhook_id"), uuid4())
    waiting |= dict.fromkeys(("surface", "type", "url", "traceparent", "status"), "") | {"body": b""}
    waiting |= dict.fromkeys(("partition", "attempts", "round", "attempts_before_round"), 0)
    waiting |= {"created_at": at, "updated_at": at, "give_up_at": clock.now()}
    asyncio.run(
        write(
            database_url,
            insert(orders).values(**order),
            insert(deliveries).values(**waiting),
        )
    )
    shell.json("partner", "create", "Acme", "--kind", "both")
    found = asyncio.run(examined(shell, database_url, code=0))["orders"]
    assert found["state"] == "note"
    assert re.match(r"1 order without an answer of the store, the oldest for 3\d\d ", found["said"])
    assert "mercato webhooks list --type order.place" in found["advice"]


def test_a_wrong_encryption_key_is_reported(
    shell: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.json("partner", "create", "Acme", "--kind", "both", "--webhook-token", "t")
    monkeypatch.setenv("MERCATO_ENCRYPTION_KEYS", "A" * 43)
    found = asyncio.run(examined(shell, database_url, code=1))
    assert found["encryption"]["said"] == "No key opens 2 stored secrets."
    monkeypatch.setenv("MERCATO_ENCRYPTION_KEYS", "short")
    assert asyncio.run(examined(shell, database_url, code=2))["encryption"]["state"] == "unusable"


def test_doctor_creates_no_encryption_key(shell: Shell, database_url: str) -> None:
    found = asyncio.run(examined(shell, database_url, code=0))
    assert found["encryption"]["state"] == "note"
    assert not (shell.data_dir / FILE).exists()


def test_a_key_that_is_not_the_databases_is_reported_before_anything_is_sealed(
    shell: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bind() -> None:
        async with Database.open(database_url) as db, db.write() as tx:
            await encryption.bind_vault(tx, "A" * 43, shell.data_dir)

    asyncio.run(bind())
    found = asyncio.run(examined(shell, database_url, code=1))["encryption"]
    assert found["said"].startswith("There is no encryption key")
    assert FILE in found["advice"]
    monkeypatch.setenv("MERCATO_ENCRYPTION_KEYS", "B" * 43)
    found = asyncio.run(examined(shell, database_url, code=1))["encryption"]
    assert found["said"] == "The key isn't the one of this database."
    assert "than MERCATO_ENCRYPTION_KEYS has" in found["advice"]
    monkeypatch.setenv("MERCATO_ENCRYPTION_KEYS", "A" * 43)
    assert asyncio.run(examined(shell, database_url, code=0))["encryption"]["state"] == "ok"


def test_different_clocks_are_reported(
    shell: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ahead(_tx: Read) -> Any:
        return clock.now() + timedelta(seconds=40)

    monkeypatch.setattr(health, "find_clock", ahead)
    found = asyncio.run(examined(shell, database_url, code=1))
    # Beside a busy process it may be read a moment later.
    assert re.fullmatch(r"the database's clock is (39|40)\.\d s ahead", found["clock"]["said"])


def test_a_schema_of_another_version_is_unusable_and_nothing_of_it_is_read(
    shell: Shell, database_url: str
) -> None:
    from mercato.platform.db.migrate import _VERSION

    asyncio.run(write(database_url, update(_VERSION).values(version_num="9999")))
    found = report(shell, code=2)
    assert found["schema"]["state"] == "unusable"
    names = every(database_url)
    assert list(found) == names[: names.index("encryption")]


@only_sqlite
def test_a_full_disk_and_a_long_log_are_reported(
    shell: Shell, database_url: str, database_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")  # noqa: PYI024  # as shutil has it
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**12, 10**12, 1000))
    assert "Make room" in asyncio.run(examined(shell, database_url, code=1))["storage"]["advice"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**12, 0, 10**12))
    monkeypatch.setattr(health, "_size", lambda _path: 10**9)
    assert "restart" in asyncio.run(examined(shell, database_url, code=1))["storage"]["advice"]


def test_too_few_open_files_are_reported(
    shell: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (256, 1024))
    found = asyncio.run(examined(shell, database_url, code=1))
    assert "LimitNOFILE" in found["open files"]["advice"]
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (256, resource.RLIM_INFINITY))
    assert processes.max_open_files() > processes.WANTED_FILES


def test_an_unavailable_redis_is_reported(
    shell: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERCATO_REDIS_URL", "redis://127.0.0.1:1/0")
    found = asyncio.run(examined(shell, database_url, code=1))
    assert "MERCATO_REDIS_URL" in found["rate limits"]["advice"]
    with redis() as port:
        monkeypatch.setenv("MERCATO_REDIS_URL", f"redis://127.0.0.1:{port}/0")
        assert asyncio.run(examined(shell, database_url, code=0))["rate limits"]["state"] == "ok"


def test_an_unusable_database_is_exit_code_2(
    fresh: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "There is no database" in report(fresh, code=2)["database"]["advice"]
    monkeypatch.setenv("MERCATO_PORTT", "1")
    monkeypatch.setenv("MERCATO_PORT", "x")
    told = fresh("doctor", code=2)
    assert "MERCATO_PORTT is not a setting" in told
    assert "MERCATO_PORT:" in told
    monkeypatch.delenv("MERCATO_PORTT")
    monkeypatch.delenv("MERCATO_PORT")
    monkeypatch.setenv("MERCATO_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert report(fresh, code=2)["database"]["state"] == "unusable"


@only_postgresql
def test_a_replica_that_lags_is_down_or_is_not_a_replica_is_reported(
    shell: Shell, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = "MERCATO_DATABASE_REPLICA_URL"
    for url, state, words in (
        (database_url, "ok", "it keeps up"),
        (with_database(database_url, "postgres"), "wrong", "a replica of this database"),
        (f"postgresql://postgres@/x?host={tmp_path}", "wrong", "does not answer"),
    ):
        monkeypatch.setenv(name, url)
        found = asyncio.run(examined(shell, database_url, code=0 if state == "ok" else 1))["replica"]
        assert found["state"] == state
        assert words in found["said"]


@only_sqlite
def test_a_replica_of_an_embedded_database_is_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, database_url: str
):
    shell("partner", "list")
    monkeypatch.setenv("MERCATO_DATABASE_REPLICA_URL", "postgresql://a:hidden@127.0.0.1/x")
    found = report(shell, code=2)["replica"]
    assert found["state"] == "unusable"
    assert "needs a PostgreSQL database" in found["advice"]
    assert "hidden" not in str(found)


LIMITED = """
import resource
from mercato_tools.cli.main import main
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048))
main()
"""


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["worker"]], ids=lambda one: one[0])
async def test_a_server_and_a_worker_raise_their_limit_of_open_files(command: list[str], tmp_path: Path):
    (tmp_path / "limited.py").write_text(LIMITED)
    process = await start(
        *command, "--data-dir", tmp_path,
        module="limited", cwd=tmp_path, stdout=asyncio.subprocess.PIPE, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await process.stdout.readline()
        lines = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
        (files,) = [line.split()[3:5] for line in lines if line.startswith("Max open files")]
        assert files == ["2048", "2048"]
    finally:
        process.kill()
        await process.communicate()


def test_the_doctors_output_fits_the_terminal(fresh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = fresh("doctor", code=2)
    assert "-> There is no database" in told
    assert max(len(line) for line in told.splitlines() if str(fresh.data_dir) not in line) <= 80


def test_a_database_with_secrets_and_no_key_is_wrong_and_no_new_key_is_advised(shell: Shell) -> None:
    shell("partner", "create", "A", "--kind", "commerce")
    (shell.data_dir / FILE).unlink()
    found = report(shell, code=1)["encryption"]
    assert found["state"] == "wrong"
    assert f"put their {FILE} there" in found["advice"]


SIGN_ON: dict[str, Any] = {
    "oidc_client_id": "a",
    "oidc_client_secret": Secret("b"),
    "oidc_operators": "anna@example.com",
}


async def test_it_checks_the_provider_of_single_sign_on():
    async def found(**settings: Any) -> tuple[str, str]:
        check = await doctor.check_sign_on(Settings(**(SIGN_ON | settings)))
        return check.state, f"{check.message} {check.advice}"

    state, words = await found()
    assert (state, "MERCATO_OIDC_ISSUER" in words) == ("unusable", True)
    assert (await found(oidc_issuer="http://127.0.0.1:9"))[0] == "wrong"
    async with provider() as there:
        assert (await found(oidc_issuer=there.issuer))[0] == "ok"
        state, words = await found(oidc_issuer=there.issuer, oidc_operators="anna")
        assert (state, "neither an e-mail address" in words) == ("unusable", True)
        there.answers["/keys"] = lambda _: web.json_response({"keys": [{"kty": "EC", "crv": "x"}]})
        state, words = await found(oidc_issuer=there.issuer)
        assert (state, "none of its keys" in words) == ("wrong", True)
        there.configuration = {"issuer": "https://evil.example"}
        state, words = await found(oidc_issuer=there.issuer)
        assert (state, "the issuer is 'https://evil.example'" in words) == ("wrong", True)


def test_the_provider_is_among_the_checks_where_one_is_set(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    shell("migrate")
    monkeypatch.setenv("MERCATO_OIDC_ISSUER", "https://login.example.com")
    said = report(shell, code=2)["sign-on"]
    assert said["state"] == "unusable"
    assert "MERCATO_OIDC_OPERATORS" in said["advice"]

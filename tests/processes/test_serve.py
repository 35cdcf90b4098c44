"""The commands, as processes of their own, killed and asked to stop."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.databases import only_sqlite
from tests.forks import Running, start
from tests.service import CATALOG, Client, MerchantServer, merchant
from tests.waiting import PATIENCE, loop_timeout

from mercato.features.schema import SCHEMA


def environment(**settings: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")}
    return clean | {"MERCATO_ALLOW_PRIVATE_NETWORKS": "true", "MERCATO_RATE_LIMITS": "off"} | settings


@asynccontextmanager
async def serving(data_dir: Path, **settings: str) -> AsyncIterator[tuple[Running, str]]:
    """Run `mercato serve` on a free port until it listens; kill it if it still runs at the end."""
    process = await start(
        "serve", "--port", "0", "--data-dir", data_dir,
        stdout=asyncio.subprocess.PIPE, env=environment(**settings),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
        assert line.startswith(b"listening on http://"), line
        yield process, line.split()[-1].decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def mercato(*arguments: Any, **settings: str) -> tuple[int, str, str]:
    """Run a command to its end; return exit code, standard output and standard error."""
    process = await start(
        *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment(**settings),
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def partner(data_dir: Path, **settings: str) -> Any:
    words = ("partner", "create", "Test", "--kind", "commerce", "--json")
    code, out, err = await mercato(*words, "--data-dir", data_dir, **settings)
    assert code == 0, err
    return json.loads(out)


async def until_status(client: Client, path: str, ended: set[str]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            body = (await client.get(path)).json()
            if body["status"] in ended:
                return body
            await asyncio.sleep(0.05)


@pytest.fixture
async def shop() -> AsyncIterator[MerchantServer]:
    async with merchant() as server:
        yield server


async def test_a_partner_is_created_while_the_server_runs_and_sigterm_ends_it_with_0(
    tmp_path: Path, shop: MerchantServer
):
    async with serving(tmp_path) as (process, base), aiohttp.ClientSession() as session:
        made = await partner(tmp_path)
        assert set(made) == {"partnerId", "commerceKey", "commerceKeyId", "signingSecret"}
        client = Client(base, made["commerceKey"], session)
        assert (await client.get("/v1/commerce/stores")).json() == {"stores": [], "nextCursor": None}
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0


async def test_a_run_survives_kill_9_of_its_process_and_ends_for_its_own_reasons(
    tmp_path: Path, shop: MerchantServer
):
    pulled, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request) -> web.Response:
        pulled.set()
        await go.wait()
        return web.json_response(CATALOG)

    made = await partner(tmp_path)
    body = {"partnerStoreId": "1", "name": "S", "address": {}, "catalogCallbackUrl": shop.host(slowly)}
    async with aiohttp.ClientSession() as session:
        async with serving(tmp_path) as (process, base):
            client = Client(base, made["commerceKey"], session)
            reply = await client.post("/v1/commerce/onboarding/stores", body)
            path = reply.headers["Location"]
            await asyncio.wait_for(pulled.wait(), PATIENCE)
            assert (await client.get(path)).json()["status"] == "catalog_ingesting"
            process.kill()
            await process.wait()
        go.set()
        async with serving(tmp_path) as (_, base):
            client = Client(base, made["commerceKey"], session)
            assert (await until_status(client, path, {"ready_to_activate", "catalog_failed"}))["status"] == (
                "ready_to_activate"
            )


async def test_two_servers_on_one_data_directory_share_it(tmp_path: Path, shop: MerchantServer):
    made = await partner(tmp_path)
    async with (
        serving(tmp_path) as (_, one),
        serving(tmp_path) as (_, two),
        aiohttp.ClientSession() as session,
    ):
        first, second = Client(one, made["commerceKey"], session), Client(two, made["commerceKey"], session)
        body = {"partnerStoreId": "1", "name": "S", "address": {}, "catalogCallbackUrl": shop.host(CATALOG)}
        path = (await second.post("/v1/commerce/onboarding/stores", body)).headers["Location"]
        assert (await until_status(first, path, {"ready_to_activate", "catalog_failed"}))[
            "status"
        ] == "ready_to_activate"
        store = (await second.post(f"{path}/activate")).json()
        status = f"/v1/commerce/stores/{store['storeId']}/status"
        assert (await first.get(status)).json()["status"] == "online"
        await second.post(status, {"status": "paused"})
        async with loop_timeout(2):
            # A write of one process is seen by the other within a second or so, through the change feed.
            while (await first.get(status)).json()["status"] != "paused":
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("command", ["serve", "worker"])
async def test_another_process_on_one_sqlite_file_says_which_one_serves_it(tmp_path: Path, command: str):
    async with serving(tmp_path) as (first, _):
        options = ("--port", "0") if command == "serve" else ()
        second = await start(
            command, *options, "--data-dir", tmp_path,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment(),
        )  # fmt: skip
        assert second.stdout is not None
        async with asyncio.timeout(PATIENCE):
            await second.stdout.readline()
        second.terminate()
        _, said = await second.communicate()
    assert f"process {first.pid} on {socket.gethostname()}" in said.decode()
    assert str(tmp_path) in said.decode()
    async with serving(tmp_path) as (third, _):
        assert third.pid != first.pid, "a process that has ended isn't named: this one starts as usual"


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_link_leads_to_the_server_that_runs_on_the_data_directory(tmp_path: Path, workers: str):
    link = ("console", "link", "--operator", "--data-dir", tmp_path)
    async with serving(tmp_path, MERCATO_WORKERS=workers) as (server, base):
        code, out, err = await mercato(*link)
        assert (code, out.startswith(f"{base}/console/links/")) == (0, True), err
        assert "another address" not in err
        _, out, _ = await mercato(*link, MERCATO_PUBLIC_URL="https://mercato.example.com")
        assert out.startswith("https://mercato.example.com/console/links/")
        server.kill()
        await server.wait()
        _, out, err = await mercato(*link, MERCATO_PORT="8123")
        assert out.startswith("http://127.0.0.1:8123/console/links/"), "a killed server counts for nothing"
        assert "No server is known to run on" in err


async def test_a_revoked_key_is_refused_by_a_running_server_within_2_s(tmp_path: Path):
    made = await partner(tmp_path)
    async with serving(tmp_path) as (_, base), aiohttp.ClientSession() as session:
        client = Client(base, made["commerceKey"], session)
        assert (await client.get("/v1/commerce/stores")).status == 200
        code, _, err = await mercato("key", "revoke", made["commerceKeyId"], "--data-dir", tmp_path)
        assert code == 0, err
        async with loop_timeout(2):
            while (await client.get("/v1/commerce/stores")).status != 401:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (("serve", "--port", "notaport"), {}, ""),
        (("serve", "--bogus"), {}, ""),
        (("nosuch",), {}, ""),
        (("serve",), {"MERCATO_DATBASE_URL": "x"}, "Did you mean MERCATO_DATABASE_URL"),
        (("serve", "--host", "203.0.113.7", "--port", "0"), {}, "Can't listen on 203.0.113.7:0"),
        (("migrate",), {"MERCATO_DATABASE_URL": "mysql://x"}, "postgresql://"),
    ],
)
async def test_a_start_that_fails_says_why_without_a_traceback(
    tmp_path: Path, arguments: tuple[str, ...], settings: dict[str, str], words: str
):
    code, out, err = await mercato(*arguments, **({"MERCATO_DATA_DIR": str(tmp_path)} | settings))
    assert code in {1, 2}
    assert "Traceback" not in out + err
    assert words in out + err
    assert (out + err).strip()


async def test_a_port_in_use_is_reported(tmp_path: Path):
    async with serving(tmp_path) as (_, base):
        code, out, err = await mercato(
            "serve", "--port", base.rsplit(":", 1)[1], "--data-dir", tmp_path / "b"
        )
        assert code == 1
        assert "Can't listen on" in out + err
        assert "another program listens there" in out + err
        assert "--port" in out + err


@only_sqlite
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_serve_dev_reaches_loopback_and_says_so(tmp_path: Path, database_kind: str, workers: str):
    process = await start(
        "serve", "--dev", "--port", "0", "--workers", workers, "--data-dir", tmp_path / "data",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment(MERCATO_ALLOW_PRIVATE_NETWORKS="false"),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            base = (await process.stdout.readline()).split()[-1].decode()
        assert (await onboarded(tmp_path / "data", base))["status"] == "ready_to_activate"
    finally:
        process.terminate()
        _, err = await process.communicate()
    assert "pulls and webhooks may reach loopback and private addresses, and use http" in err.decode()


@only_sqlite
async def test_a_refused_loopback_url_names_the_setting_that_allows_it(tmp_path: Path, database_kind: str):
    refused = {"MERCATO_ALLOW_PRIVATE_NETWORKS": "false"}
    async with serving(tmp_path / "data", **refused) as (_, base):
        status = await onboarded(tmp_path / "data", base)
        assert "mercato serve --dev" in status["error"]
        assert "MERCATO_ALLOW_PRIVATE_NETWORKS=true" in status["error"]
    public = {"MERCATO_PUBLIC_URL": "https://api.example.com"}
    async with serving(tmp_path / "other", **refused, **public) as (_, base):
        status = await onboarded(tmp_path / "other", base)
        assert "not public" in status["error"]
        assert "MERCATO" not in status["error"]


async def onboarded(data_dir: Path, base: str) -> Any:
    """Register a store whose catalog is on loopback; return its status once the catalog was pulled or refused."""
    made = await partner(data_dir, MERCATO_ALLOW_PRIVATE_NETWORKS="false")
    async with merchant() as shop, aiohttp.ClientSession() as session:
        pos = Client(base, made["commerceKey"], session)
        body = {"partnerStoreId": "s", "name": "S", "address": {}, "catalogCallbackUrl": shop.host(CATALOG)}
        path = (await pos.post("/v1/commerce/onboarding/stores", body)).headers["Location"]
        async with asyncio.timeout(PATIENCE):
            while (status := (await pos.get(path)).json())["status"] in {
                "pending_catalog",
                "catalog_ingesting",
            }:
                await asyncio.sleep(0.05)
        return status


@only_sqlite
async def test_migrate_says_what_it_did_and_that_a_repeat_changed_nothing(tmp_path: Path, database_kind: str):
    code, out, err = await mercato("migrate", "--data-dir", tmp_path / "data")
    assert (code, out, err) == (
        0,
        "",
        f"Created the tables of revision {SCHEMA.head} in {tmp_path / 'data'}.\n",
    )
    code, out, err = await mercato("migrate", "--data-dir", tmp_path / "data")
    assert (code, out, err) == (
        0,
        "",
        f"The database is at revision {SCHEMA.head}, this version's: nothing was changed.\n",
    )


@only_sqlite
async def test_a_worker_creates_no_data_directory_and_says_how_to_name_one(
    tmp_path: Path, database_kind: str
):
    code, out, err = await mercato("worker", "--data-dir", tmp_path / "typo")
    assert (code, out) == (2, "")
    assert f"There is no data directory {tmp_path / 'typo'}" in err
    assert "--data-dir" in err
    assert not (tmp_path / "typo").exists()


@only_sqlite
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["worker"]], ids=lambda one: one[0])
async def test_no_encryption_key_is_created_for_a_database_whose_key_is_lost(
    tmp_path: Path, database_kind: str, command: list[str]
):
    await partner(tmp_path)
    (tmp_path / "encryption.key").unlink()
    code, _, err = await mercato(*command, "--data-dir", tmp_path)
    assert code == 1
    assert "restore the file encryption.key" in err
    assert not (tmp_path / "encryption.key").exists()

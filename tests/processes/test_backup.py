"""Backup and restore with real processes: work in progress continues from the copy."""

import shutil
import signal
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.forks import start
from tests.processes.test_serve import environment, mercato, partner, serving, until_status
from tests.service import CATALOG, Client, merchant

ONBOARDING = "/v1/commerce/onboarding/stores"


async def down(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def test_a_restored_service_continues_from_the_backup(tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    async with merchant() as shop, aiohttp.ClientSession() as session:
        shop.answers["catalog-sync"] = down
        async with serving(old) as (process, base):
            pos = Client(base, (await partner(old))["commerceKey"], session)
            body = {"partnerStoreId": "1", "name": "Store", "address": {}}
            body |= {"catalogCallbackUrl": shop.host(CATALOG), "webhookUrl": shop.base}
            onboarding = (await pos.post(ONBOARDING, body)).json()
            path = f"{ONBOARDING}/{onboarding['onboardingId']}"
            await until_status(pos, path, {"ready_to_activate"})
            store = (await pos.post(path + "/activate")).json()["storeId"]
            notified = await pos.post(
                f"/v1/commerce/catalogset-notification?storeId={store}", {"callbackUrl": shop.host(CATALOG)}
            )
            _, sent, _ = await shop.webhook()
            code, _, told = await mercato("backup", tmp_path / "copy.db", "--data-dir", old)
            assert code == 0, told
            assert "encryption.key" in told
            process.kill()

        code, _, told = await mercato("restore", tmp_path / "copy.db", "--data-dir", new)
        assert code == 0, told
        shutil.copy(old / "encryption.key", new)
        shop.answers.clear()
        async with serving(new) as (_, base):
            pos = Client(base, pos.key, session)
            assert (await pos.get(f"/v1/commerce/stores/{store}")).json()["name"] == "Store"
            _, again, _ = await shop.webhook()
    assert again["webhook-id"] == sent["webhook-id"] == notified.json()["catalogIngestId"]


async def test_a_backup_that_fails_says_why_without_a_traceback(tmp_path: Path):
    code, _, told = await mercato("backup", tmp_path / "copy.db", "--data-dir", tmp_path / "none")
    assert (code, told.count("\n")) == (1, 1), told
    code, _, told = await mercato(
        "backup", tmp_path / "copy.db", MERCATO_DATABASE_URL="postgresql://host/name"
    )
    assert code == 2
    assert "pg_dump" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_an_interrupted_backup_leaves_no_partial_copy(tmp_path: Path, number: int):
    """Otherwise every backup that is ended by a signal would leave a full copy under a hidden name."""
    data, copies = tmp_path / "data", tmp_path / "copies"
    copies.mkdir()
    await partner(data)
    script = f"""
import os, sys
from mercato_tools.cli import main as cli
from mercato.platform.db import backup
backup._check = lambda *_: os.kill(os.getpid(), {number})
sys.exit(cli.run(["backup", {str(copies / "copy.db")!r}, "--data-dir", {str(data)!r}]))
"""
    (tmp_path / "interrupted.py").write_text(script)
    process = await start(module="interrupted", cwd=tmp_path, env=environment())
    assert await process.wait() == 128 + number
    assert list(copies.iterdir()) == []

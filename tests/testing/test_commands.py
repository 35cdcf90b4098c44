"""`mercato sandbox`: used rightly and wrongly, with a service and without, interrupted, and in a pipe."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.databases import only_sqlite
from tests.forks import INSTALLED, Running, start
from tests.service import service
from tests.testing.calls import ORDER, SECRET, tell

from mercato.features.partners.model import PartnerKind
from mercato_client.testing import MerchantDouble, StorefrontDouble
from mercato_tools.cli import FAILED, UNUSABLE, sandbox_work
from mercato_tools.cli import main as cli

GENEROUS = 180
"""Seconds: what takes two here may take a minute beside other tests."""


@asynccontextmanager
async def started(*arguments: str, directory: Path, **settings: str) -> AsyncIterator[Running]:
    """Run `mercato sandbox` in a pipe, as in a terminal of 80 columns without colour."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")}
    process = await start(
        "sandbox", *arguments, cwd=directory,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment | {"COLUMNS": "80", "NO_COLOR": "1"} | settings,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def until(process: Running, words: str) -> str:
    """Read standard output up to and with the line that has the words."""
    assert process.stdout is not None
    printed = ""
    async with asyncio.timeout(GENEROUS):
        while words not in printed:
            line = (await process.stdout.readline()).decode()
            assert line, printed
            printed += line
    return printed


async def ended(process: Running) -> tuple[int | None, str, str]:
    """Send Ctrl-C; return the exit code and what it told from now on.

    Once is enough: who has told something listens for it already. A second one might meet Python's own end.
    """
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(GENEROUS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_a_merchant_listens_shows_calls_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    arguments = ["merchant", "--port", "0", "--on", "place", "drop:9", "--log", "seen.jsonl", "--secret"]
    async with started(*arguments, SECRET, directory=tmp_path) as process:
        printed = await until(process, "catalogCallbackUrl")
        url = re.findall(r"webhookUrl +(http://\S+)", printed)[0]
        assert (await tell(url, "validate"))[0] == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await tell(url, "place")
        printed += await until(process, "drop:9")
        code, out, err = await ended(process)
    assert code == 0
    assert "validate         200  signed total 7.72" in printed
    assert "place            200  signed A-1001 <drop:9>" in printed
    assert err == "Ended. 2 calls; orders taken 1, refused 0, cancelled 0.\n"
    assert "\x1b" not in printed + out
    assert max(map(len, (printed + out).splitlines())) <= 80
    log = (tmp_path / "seen.jsonl").read_text()
    assert [json.loads(line)["operation"] for line in log.splitlines()] == ["validate", "place"]
    assert SECRET not in log


async def test_a_pipe_gets_only_lines_of_json_and_a_closed_one_ends_it_quietly(
    tmp_path: Path,
) -> None:
    arguments = ("merchant", "--port", "0", "--json")
    async with started(*arguments, directory=tmp_path, **INSTALLED) as process:
        assert process.stderr is not None
        url = (await process.stderr.readline()).decode().split()[-1]
        assert (await tell(f"{url}/hooks", "place"))[0] == 401
        line = json.loads(await until(process, "\n"))
        assert (line["operation"], line["status"]) == ("place", 401)
        # As `| head -1` does.
        process._transport.get_pipe_transport(1).close()  # type: ignore[union-attr]
        await tell(f"{url}/hooks", "place")
        async with asyncio.timeout(GENEROUS):
            assert await process.wait() == FAILED
        assert await process.stderr.read() == b""


async def test_without_a_secret_it_makes_one_that_follows_from_the_seed(tmp_path: Path) -> None:
    secrets = []
    for _ in range(2):
        async with started("merchant", "--port", "0", "--seed", "9", directory=tmp_path) as process:
            printed = await until(process, "catalogCallbackUrl")
            secrets += re.findall(r"signing secret +(whsec_\S+)", printed)
    assert secrets[0] == secrets[1]


@only_sqlite
async def test_two_commands_trade_at_a_service(database_url: str, tmp_path: Path) -> None:
    async with service(database_url, tmp_path / "data") as running:
        pos, partner = await running.partner()
        _, buyer = await running.partner(PartnerKind.MARKETFRONT)
        (tmp_path / "key").write_text(f"{partner.key}\n")
        (tmp_path / "acts").write_text(
            "# the second customer\nplace accept\nplace decline:ITEM_UNAVAILABLE\n"
        )
        sells = ["merchant", "--port", "0", "--step", "0", "--key", "@key", "--script", "acts", "--secret"]
        async with started(*sells, pos.signing_secret, "--api", running.base, directory=tmp_path) as merchant:
            printed = await until(merchant, "is live")
            buys = ["storefront", "--port", "0", "--orders", "3", "--endpoint", "--feed"]
            for act in ("accept", "accept", "wrong"):
                buys += ["--on", "order", act]
            key = ["--key", str(buyer.key), "--api", running.base]
            async with started(*buys, *key, directory=tmp_path) as storefront:
                async with asyncio.timeout(GENEROUS):
                    out, err = await storefront.communicate()
            assert (storefront.returncode, err[:6]) == (0, b"Ended."), (out, err)
            text = out.decode()
            assert "Order 1 at Forno Lucia: completed; total " in text
            assert "Order 2 at Forno Lucia: refused; total " in text
            assert "ITEM_UNAVAILABLE" in text
            assert "ORDER_TOTAL_DIFFERENT" in text
            assert "-- 3 customers: 1 completed, 2 refused." in text
            assert "signed ping" in text
            assert re.search(r"feed +200 +order.created 1: open ", text)
            assert re.search(r"-- The feed had \d+ events, with 0 gaps.", text)
            code, out_of_merchant, err_of_merchant = await ended(merchant)
        assert (code, "orders taken 1, refused 1" in err_of_merchant) == (0, True)
        assert str(partner.key) not in printed + out_of_merchant


@only_sqlite
async def test_a_storefront_with_tools_orders_as_an_agent_and_shows_each_tool(
    database_url: str, tmp_path: Path
) -> None:
    async with service(database_url, tmp_path / "data") as running:
        pos, partner = await running.partner()
        _, buyer = await running.partner(PartnerKind.MARKETFRONT)
        secret = ["--secret", pos.signing_secret, "--key", str(partner.key), "--api", running.base]
        async with started("merchant", "--port", "0", "--step", "0", *secret, directory=tmp_path) as merchant:
            await until(merchant, "is live")
            buys = ["storefront", "--port", "0", "--orders", "2", "--tools", "--on", "order", "accept"]
            buys += ["--on", "order", "wrong", "--key", str(buyer.key), "--api", running.base]
            async with started(*buys, directory=tmp_path) as storefront:
                async with asyncio.timeout(GENEROUS):
                    out, err = await storefront.communicate()
            await ended(merchant)
    assert storefront.returncode == 0, (out, err)
    text = out.decode()
    assert re.search(r"place_order +200 +placed \d+\.\d\d EUR", text)
    assert re.search(r"place_order +200 +ORDER_TOTAL_DIFFERENT", text)
    assert "-- 2 customers: 1 completed, 1 refused." in text


@only_sqlite
async def test_a_wrong_key_is_reported_with_advice(database_url: str, tmp_path: Path) -> None:
    async with service(database_url, tmp_path / "data") as running:
        for side in ("merchant", "storefront"):
            given = ["--port", "0", "--secret", SECRET, "--key", "mk_wrong", "--api", running.base]
            async with started(side, *given, directory=tmp_path) as process:
                async with asyncio.timeout(GENEROUS):
                    out, err = await process.communicate()
            assert process.returncode == FAILED
            assert "401 UNAUTHENTICATED" in (out + err).decode()
            assert "mercato key create" in " ".join((out + err).decode().split())


async def test_an_unreachable_service_is_reported_with_advice(tmp_path: Path) -> None:
    async with MerchantDouble() as closed:
        nowhere = closed.url
    given = ["--port", "0", "--secret", SECRET, "--key", "k", "--api", nowhere]
    async with started("merchant", *given, directory=tmp_path) as process:
        async with asyncio.timeout(GENEROUS):
            _, err = await process.communicate()
    assert process.returncode == FAILED
    assert "Nothing answers at" in err.decode()
    assert "mercato serve" in " ".join(err.decode().split())


async def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    async with MerchantDouble() as there:
        port = there.url.rpartition(":")[2]
        async with started("storefront", "--port", port, directory=tmp_path) as process:
            async with asyncio.timeout(GENEROUS):
                _, err = await process.communicate()
    assert process.returncode == UNUSABLE
    assert b"--port 0" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["merchant", "--on", "place", "declne:X"], "--on place declne:X: place cannot be 'declne'"),
        (["merchant", "--on", "plaice", "500"], "Write one of: validate, place"),
        (["storefront", "--on", "place", "500"], "Write one of: event, order"),
        (["merchant", "--script", "acts"], "acts, line 2:"),
        (["merchant", "--script", "none"], "There is no file none."),
        (["merchant", "--catalog", "none"], "There is no file none."),
        (["merchant", "--secret", "hush"], "whsec_"),
        (["merchant", "--api", "http://127.0.0.1:1"], "mercato key create"),
        (["merchant", "--key", "k"], "--api, its address"),
        (["storefront", "--feed"], "--api, its address"),
        (["merchant", "--key", "k", "--api", "127.0.0.1:1"], "http://127.0.0.1:8000"),
        (["merchant", "--key", "k", "--api", "http://127.0.0.1:1"], "mercato secret list"),
        (["storefront", "--orders", "-1"], "cannot be less than 0"),
        (["storefront", "--every", "inf"], "--every is from 0 to 86400 seconds."),
        (["storefront", "--follow", "nan"], "--follow is from 0 to 86400 seconds."),
        (["merchant", "--log", "none/seen.jsonl", "--port", "0"], "--log"),
        (["merchant", "--step", "-1"], "--step is from 0 to 86400 seconds."),
        (["merchant", "--step", "nan"], "--step is from 0 to 86400 seconds."),
        (
            ["merchant", "--host", "203.0.113.7", "--port", "0"],
            "203.0.113.7 isn't an address of this machine",
        ),
        (
            ["storefront", "--host", "no such host", "--port", "0"],
            "no such host isn't an address of this machine",
        ),
        (["merchant", "--port", "65536"], "--port is from 0 to 65535"),
        (["storefront", "--port", "-1"], "--port is from 0 to 65535"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_options_are_reported_with_the_valid_ones(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acts").write_text("place 500\nplace 200\n")
    assert cli.run(["sandbox", *arguments]) == UNUSABLE
    answer = capsys.readouterr()
    assert words in " ".join(answer.err.split())
    assert "hush" not in answer.err


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["sandbox", "merchant", "--prot", "1"]) == UNUSABLE
    assert "--prot" in "".join(capsys.readouterr())


async def test_a_code_that_the_specification_does_not_have_is_noted(tmp_path: Path) -> None:
    arguments = ["merchant", "--port", "0", "--on", "place", "decline:NO_DOUGH"]
    async with started(*arguments, directory=tmp_path) as process:
        assert "NO_DOUGH" in await until(process, "-- ")
    assert ORDER


async def test_customers_wait_a_moment_for_a_store_that_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([[], [{"isOpen": False}], [{"isOpen": True}]])
    printed: list[str] = []

    class Early(StorefrontDouble):
        async def discover(self, **_asked: object) -> list[Any]:
            return next(looks)

    monkeypatch.setattr(sandbox_work, "OPEN_POLL_SECONDS", 0)
    bought = sandbox_work.buy(Early(), printed.append, orders=0, every=0, follow=0, store=None, query={})
    assert await bought == 0
    assert list(looks) == []
    assert "No store is open yet." in printed[0]

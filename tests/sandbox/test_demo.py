"""`mercato demo`: completed, kept running, interrupted, and made to fail."""

import asyncio
import os
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from tests.console.browser import Browser
from tests.forks import Running, start
from tests.waiting import PATIENCE

from mercato.cli.demo import demo
from mercato.local.demo import merchant
from mercato.local.demo.context import DemoContext, ProofFailed, Proofs
from mercato.local.demo.merchant import STEPS, end_of_pause
from mercato_client.testing import MerchantDouble
from mercato_client.testing.caller import Caller
from mercato_contract.orders import Order
from mercato_contract.wire import instant, parse_instant

GENEROUS = 5 * PATIENCE
"""Seconds; the demo takes four on an idle machine, of a processor that it may have to share."""

CLAIMS = (
    "Catalogs are pulled and checked",
    "A broken one is refused with a pointer",
    "No store goes live before its catalog",
    "Fixed and retried, it is accepted",
    "Three stores are live",
    "A dry run shows changes and makes none",
    "A notification switches the catalog",
    "A broken update changes nothing",
    "An unchanged one is not downloaded",
    "A mistake in a catalog is undone",
    "A pause ends by the clock alone",
    "An item sells out, no new catalog",
    "standardwebhooks verifies every event",
    "A tampered body does not verify",
    "A redelivery has the same id and bytes",
    "A wrong key opens nothing",
    "Another partner does not see the store",
    "A search by place finds what is near",
    "A search by text finds the right store",
    "A known catalog is not sent again",
    "A cart is priced to the cent",
    "A pizza without a size is refused",
    "The store's tax is in the total",
    "The order is placed; the store has it",
    "Every step arrives as an event",
    "Both sides read the same order",
    "The merchant reads its own ids",
    "A closed order stays closed",
    "The same key gives the same bytes",
    "A key is valid for one request",
    "A token is valid for one order",
    "None of them reached the store",
    "A changed price is caught",
    "It costs the amount validated last",
    "A declined card is reported",
    "The card's token is written nowhere",
    "A store that is down is reported",
    "Its order is kept for now",
    "The same key joins: one order in all",
    "The timeline has every step and call",
    "A customer cancels; the store agrees",
    "The store hears of it once",
    "A store may refuse, and says why",
    "Then the order goes on",
    "The storefront hears of the refund",
    "A refund is made once, to the cent",
    "standardwebhooks verifies every call",
    "standardwebhooks verifies order events",
    "Events count from 1, without a gap",
    "A forged order event does not verify",
    "The feed has each event, without a gap",
    "Another storefront does not see it",
    "It can't use another's token either",
    "A key opens its own surface only",
    "An agent orders by name, once",
    "Beyond its limit nothing is placed",
    "Above an amount a person decides",
    "A cancelled order gives back its cost",
)
"""What the demo proves, in its order."""


async def started(directory: Path, *arguments: str, **settings: str) -> Running:
    """Start the demo in a pipe, its temporary files below the directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")}
    return await start(
        "demo", *arguments, cwd=directory,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment | {"TMPDIR": str(directory), "COLUMNS": "80", "NO_COLOR": "1"} | settings,
    )  # fmt: skip


def left_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def read_until(process: Running, words: str) -> str:
    """Read standard output up to and including the line with the words."""
    assert process.stdout is not None
    lines = []
    async with asyncio.timeout(GENEROUS):
        while line := (await process.stdout.readline()).decode():
            lines.append(line)
            if words in line:
                return "".join(lines)
    raise AssertionError("".join(lines) + ((await process.communicate())[1]).decode())


async def test_it_ends_with_0_and_a_table_of_what_it_proved(tmp_path: Path) -> None:
    # The demo must ignore the environment, so that it never touches a real database.
    process = await started(tmp_path, MERCATO_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    async with asyncio.timeout(GENEROUS):
        out, err = await process.communicate()
    text = out.decode()
    assert (process.returncode, err) == (0, b""), text
    for title, _ in STEPS:
        assert title in text
    rows = re.findall(r"^ (ok|FAIL) +(\S.*?)  ", text, re.MULTILINE)
    assert rows == [("ok", claim) for claim in CLAIMS]
    assert f"All {len(rows)} claims hold." in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert left_in(tmp_path) == []


async def test_keep_leaves_it_running_until_ctrl_c_ends_it_with_0(tmp_path: Path) -> None:
    process = await started(tmp_path, "--keep")
    text = await read_until(process, "the operator ")
    exports = "\n".join(re.findall(r"^export \w+=\S+$", text, re.MULTILINE))
    commands = re.findall(r"^curl -s (?:.*\\\n)?.*$", text, re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        shell = await asyncio.create_subprocess_exec(
            "bash", "-c", f"set -u\n{exports}\n{command} --fail", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await shell.communicate()
        assert (shell.returncode, out[:1]) == (0, b"{"), command
    board = re.search(r"^  (http\S+/console/board\S+)$", text, re.MULTILINE)
    assert board is not None
    await shows_its_story(
        re.findall(r"^  the \w+ +(http\S+/console/links/\S+)$", text, re.MULTILINE), board[1]
    )
    await is_cooked(dict(re.findall(r"^export (\w+)=(\S+)$", text, re.MULTILINE)))
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(GENEROUS):
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b"Ended." in out
    assert left_in(tmp_path) == []


async def shows_its_story(links: list[str], board: str) -> None:
    """Sign in with the links of the merchant, the storefront and the operator; each finds the orders.

    The merchant has two of them on the board.
    """
    assert len(links) == 3
    async with aiohttp.ClientSession() as session, asyncio.timeout(GENEROUS):
        for link in links:
            browser = Browser(link.partition("/console")[0], session)
            await browser.press(await browser.open(link), "Continue")
            page = await browser.open("/console/orders")
            assert (page.heading, len(page.rows("Orders")) > 3) == ("Orders", True)
            if link == links[0]:
                waiting = await browser.open(board)
                assert waiting.buttons.count("Refuse") == 2


async def is_cooked(shell: dict[str, str]) -> None:
    """Place an order like an existing one; the running merchant completes it."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(GENEROUS):
        pos, shop = (Caller(shell["URL"], shell[name], session) for name in ("KEY", "SHOP_KEY"))
        [like] = (await pos.get("/v1/commerce/orders?state=completed&limit=1")).json()["orders"]
        order = {name: like[name] for name in ("cart", "clientContext", "fulfillment")}
        reply = await shop.post("/v1/marketfront/orders/place", order, Idempotency_Key="mine")
        path = f"/v1/marketfront/orders/{reply.expect(201, 'It is not placed')['orderId']}"
        await shop.until(path, lambda now: now["state"] == "completed", "It cannot be read", Order)


async def test_ctrl_c_in_the_middle_ends_it_with_130_and_leaves_no_files(tmp_path: Path) -> None:
    process = await started(tmp_path)
    await read_until(process, "The stores go live")
    process.send_signal(signal.SIGINT)
    await ends_interrupted(process, tmp_path)


async def ends_interrupted(process: Running, directory: Path) -> None:
    async with asyncio.timeout(GENEROUS):
        out, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")
    assert b"Interrupted." in out
    assert left_in(directory) == []


def test_a_claim_that_does_not_hold_is_named_and_ends_it_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(merchant, "RUNS", 4)
    assert demo() == 1
    text = capsys.readouterr().out
    assert " FAIL " in text
    assert "Not proved: standardwebhooks verifies every event: 5 of 5" in text


def test_a_claim_of_the_storefronts_half_that_does_not_hold_ends_it_with_1_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MerchantDouble, "come_back", lambda _merchant: None)
    assert demo() == 1
    assert "Not proved: The same key joins the order: 503" in capsys.readouterr().out


def test_an_unexpected_answer_is_a_claim_that_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mercato.local.demo.merchant.ONBOARDING", "/v1/nowhere")
    assert demo() == 1
    assert "Not proved: A store is registered: 404" in capsys.readouterr().out


def test_a_chapter_that_breaks_off_counts_as_not_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def stumble(_scene: DemoContext) -> None:
        raise KeyError("storeId")

    monkeypatch.setattr("mercato.local.demo.merchant.STEPS", [("A day", stumble)])
    assert demo() == 1
    assert "Not proved: A day: broke off: KeyError: 'storeId'" in capsys.readouterr().out


async def test_a_timeout_is_a_failed_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercato.local.demo.context.TIMEOUT", 0.05)
    proofs = Proofs()

    async def look() -> str:
        return "pending"

    with pytest.raises(ProofFailed, match="pending"):
        await proofs.until("It ends", look, lambda seen: seen == "done", poll=0.01)
    assert [proof.holds for proof in proofs] == [False]


def test_a_pause_that_a_slow_machine_reads_after_its_end_is_made_again_for_longer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {merchant.register, merchant.fix, merchant.activate, merchant.pause}
    monkeypatch.setattr(merchant, "STEPS", [step for step in STEPS if step[1] in steps])
    # No machine reads a request so soon.
    monkeypatch.setattr(merchant, "PAUSE", timedelta(microseconds=1))
    assert demo() == 0
    assert "A pause ends by the clock alone" in capsys.readouterr().out


def test_a_pause_ends_at_an_instant_that_the_service_keeps_whole() -> None:
    """Of more digits it keeps the milliseconds, and is online before the rest has passed."""
    end = end_of_pause(datetime(2026, 1, 31, 18, 30, 0, 123_999, tzinfo=UTC))
    assert parse_instant(instant(end) or "") == end

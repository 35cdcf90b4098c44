"""`mercato demo`: told to its end, kept, interrupted, and made to fail."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from mercato.cli.demo import demo
from mercato.sandbox import trust
from mercato.sandbox.commerce import CHAPTERS
from mercato.sandbox.proofs import ProofFailed, Proofs
from mercato.sandbox.scene import Scene

MERCATO = Path(sys.executable).with_name("mercato")

GENEROUS = 60
"""Seconds; the demo takes three on an idle machine."""


async def started(directory: Path, *arguments: str, **settings: str) -> asyncio.subprocess.Process:
    """Start the demo in a pipe, its temporary files below the directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")}
    return await asyncio.create_subprocess_exec(
        MERCATO, "demo", *arguments, cwd=directory,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment | {"TMPDIR": str(directory), "COLUMNS": "80", "NO_COLOR": "1"} | settings,
    )  # fmt: skip


def left_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def read_until(process: asyncio.subprocess.Process, words: str) -> str:
    """Read standard output up to and with the line that has the words."""
    assert process.stdout is not None
    lines = []
    async with asyncio.timeout(GENEROUS):
        while line := (await process.stdout.readline()).decode():
            lines.append(line)
            if words in line:
                return "".join(lines)
    raise AssertionError("".join(lines) + ((await process.communicate())[1]).decode())


async def test_it_ends_with_0_and_a_table_of_what_it_proved(tmp_path: Path) -> None:
    # What stands in the environment is not the demo's business: it must not touch a real database.
    process = await started(tmp_path, MERCATO_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    async with asyncio.timeout(GENEROUS):
        out, err = await process.communicate()
    text = out.decode()
    assert (process.returncode, err) == (0, b""), text
    for title, _ in CHAPTERS:
        assert title in text
    rows = re.findall(r"^ (ok|FAIL) ", text, re.MULTILINE)
    assert rows == ["ok"] * len(rows)
    assert f"All {len(rows)} claims hold." in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert left_in(tmp_path) == []


async def test_keep_leaves_it_running_until_ctrl_c(tmp_path: Path) -> None:
    process = await started(tmp_path, "--keep")
    text = await read_until(process, "API reference:")
    base, key = (
        re.search(r"^export URL=(\S+)$", text, re.MULTILINE),
        re.search(r"^export KEY=(\S+)$", text, re.MULTILINE),
    )
    assert base is not None
    assert key is not None
    commands = re.findall(r"^curl -s (?:.*\\\n)?.*$", text, re.MULTILINE)
    assert len(commands) == 3
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key[1]}"}) as session:
        async with session.get(base[1] + "/v1/commerce/stores") as reply:
            assert len((await reply.json())["stores"]) == 3
        for command in commands:
            shell = await asyncio.create_subprocess_exec(
                "bash", "-c", f"export URL={base[1]} KEY={key[1]}\n{command} --fail",
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, _ = await shell.communicate()
            assert (shell.returncode, out[:1]) == (0, b"{"), command
    process.send_signal(signal.SIGINT)
    await ends_interrupted(process, tmp_path)


async def test_ctrl_c_in_the_middle_ends_it_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    process = await started(tmp_path)
    await read_until(process, "The stores go live")
    process.send_signal(signal.SIGINT)
    await ends_interrupted(process, tmp_path)


async def ends_interrupted(process: asyncio.subprocess.Process, directory: Path) -> None:
    async with asyncio.timeout(GENEROUS):
        out, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")
    assert b"Interrupted." in out
    assert left_in(directory) == []


def test_a_claim_that_does_not_hold_is_named_and_ends_it_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trust, "RUNS", 4)
    assert demo() == 1
    text = capsys.readouterr().out
    assert " FAIL " in text
    assert "Not proved: standardwebhooks verifies every event: 3 of 3" in text


def test_an_unexpected_answer_is_a_claim_that_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mercato.sandbox.opening.ONBOARDING", "/v1/nowhere")
    assert demo() == 1
    assert "Not proved: A store is registered: 404" in capsys.readouterr().out


def test_a_chapter_that_breaks_off_counts_as_not_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def stumble(_scene: Scene) -> None:
        raise KeyError("storeId")

    monkeypatch.setattr("mercato.sandbox.commerce.CHAPTERS", [("A day", stumble)])
    assert demo() == 1
    assert "Not proved: A day: broke off: KeyError: 'storeId'" in capsys.readouterr().out


async def test_what_does_not_come_in_time_is_a_proof_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercato.sandbox.proofs.PATIENCE", 0.05)
    proofs = Proofs()

    async def look() -> str:
        return "pending"

    with pytest.raises(ProofFailed, match="pending"):
        await proofs.until("It ends", look, lambda seen: seen == "done", poll=0.01)
    assert [proof.holds for proof in proofs] == [False]

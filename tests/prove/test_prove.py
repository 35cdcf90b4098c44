"""The crash proof itself, in a small size; `make prove` runs it for any time."""

from pathlib import Path

import pytest
from tests.databases import mostly_sqlite
from tests.prove.command import main
from tests.prove.round import Plan, Result, run
from tests.prove.state import load


async def killed(tmp_path: Path, database_kind: str, url: str, *, seed: int, kills: int) -> Result:
    return await run(
        Plan(
            database=database_kind,
            url=url if database_kind == "postgresql" else None,
            seed=seed,
            kills=kills,
            directory=tmp_path,
        )
    )


@mostly_sqlite
async def test_four_kills_lose_nothing_duplicate_nothing_and_leave_nothing_stuck(
    tmp_path: Path, database_kind: str, database_url: str
):
    result = await killed(tmp_path, database_kind, database_url, seed=4, kills=4)
    assert result.violations == []
    assert result.counts.kills >= 4
    assert result.counts.orders > 0
    assert result.counts.runs > 0


@pytest.mark.long
async def test_fifty_kills_lose_nothing_duplicate_nothing_and_leave_nothing_stuck(
    tmp_path: Path, database_kind: str, database_url: str
):
    result = await killed(tmp_path, database_kind, database_url, seed=50, kills=50)
    assert result.violations == []
    assert result.counts.kills >= 50


def test_a_proof_resumes_from_its_state_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    state = tmp_path / "state.json"
    state.write_text(
        '{"next_seed": 7, "tallies": {"sqlite": {"counts": {"rounds": 2, "kills": 50}, "broken": [{"seed": 5, '
        '"violation": {"kind": "lost", "what": "an order", "ids": "o-1"}}]}}}'
    )
    arguments = ["--kills", "50", "--database", "sqlite", "--state", str(state), "--seed", "1"]
    assert main(arguments, postgresql_url=lambda: "") == 1
    said = capsys.readouterr().out
    assert "sqlite, seed 5: lost: an order: o-1" in said
    assert load(state, seed=1).next_seed == 7

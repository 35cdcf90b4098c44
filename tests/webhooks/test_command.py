"""`mercato webhooks enable` enables a disabled endpoint."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from mercato.features.partners import accounts
from mercato.features.partners.model import PartnerKind
from mercato.features.partners.vault import Vault, load_keys
from mercato.features.schema import SCHEMA
from mercato.features.webhooks.tables import failing_endpoints
from mercato.platform.db.engine import Database
from mercato.platform.db.migrate import migrate
from mercato_tools.cli import main as cli

URL = "https://pos.example/hooks"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


async def prepared(data_dir: Path) -> None:
    """Make a database in which an address of the partner is disabled."""
    url = f"sqlite:///{data_dir / 'mercato.db'}"
    await migrate(url, SCHEMA)
    vault = Vault(load_keys(None, data_dir))
    async with Database.open(url) as db, db.write() as tx:
        partner = await accounts.create_partner(tx, vault, name="Acme", kind=PartnerKind.COMMERCE)
        row = {"partner_id": partner.id, "url": f"{URL}/catalog-sync", "failing_since": NOW}
        row |= {"disabled_at": NOW, "disabled_reason": "410"}
        await tx.execute(insert(failing_endpoints).values(row))


async def disabled(data_dir: Path) -> list[Any]:
    async with Database.open(f"sqlite:///{data_dir / 'mercato.db'}") as db, db.read() as tx:
        return [
            row.url
            for row in await tx.all(
                select(failing_endpoints).where(failing_endpoints.c.disabled_at.is_not(None))
            )
        ]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("MERCATO_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    asyncio.run(prepared(tmp_path))
    return tmp_path


@pytest.mark.parametrize("url", [URL, f"{URL}/catalog-sync"])
def test_a_disabled_address_is_enabled_by_its_webhook_url_or_by_itself(
    data_dir: Path, url: str, capsys: pytest.CaptureFixture[str]
):
    assert asyncio.run(disabled(data_dir)) == [f"{URL}/catalog-sync"]
    assert cli.run(["webhooks", "enable", "Acme", url, "--data-dir", str(data_dir)]) == 0
    assert asyncio.run(disabled(data_dir)) == []
    assert "is enabled again" in capsys.readouterr().err


def test_an_address_that_was_not_disabled_is_reported(data_dir: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["webhooks", "enable", "Acme", "https://other.example", "--data-dir", str(data_dir)]) == 0
    assert "was not disabled" in capsys.readouterr().err
    assert cli.run(["webhooks", "enable", "Nobody", URL, "--data-dir", str(data_dir)]) != 0

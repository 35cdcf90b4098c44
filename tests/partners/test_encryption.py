"""All processes on a database share one encryption key, from the first that starts on."""

import asyncio
import base64
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.partners.test_commands import Shell, shell
from tests.processes.test_serve import mercato
from tests.service import service

from mercato.features.partners import encryption
from mercato.features.partners.vault import FILE, Vault, VaultError
from mercato.features.webhooks.endpoints import WebhookEndpoints
from mercato.features.webhooks.model import AS_OPERATORS
from mercato.platform.db.engine import Database
from mercato_contract import clock
from mercato_contract.webhooks import WebhookEndpointRequest
from mercato_outbound.guard import AddressPolicy

__all__ = ["shell"]

NOTHING_SEALED = ("partner", "create", "Acme", "--kind", "commerce")


async def bind(db: Database, data_dir: Path) -> Vault:
    async with db.write() as tx:
        return await encryption.bind_vault(tx, None, data_dir)


def roots(vaults: Sequence[Vault | BaseException]) -> set[bytes]:
    return {key for vault in vaults if isinstance(vault, Vault) for key in vault.derive("test")}


async def test_a_process_with_another_data_directory_cannot_begin_on_the_same_database(
    database_url: str, shell: Shell, tmp_path: Path
):
    served = tmp_path / "served"
    async with service(database_url, served):
        before = shell.data_dir = tmp_path / "other"
        await asyncio.to_thread(shell, *NOTHING_SEALED, code=1)
        assert f"than {before / FILE}, which doesn't exist, has" in shell.err
        assert "data directory of the others (MERCATO_DATA_DIR)" in shell.err
        assert not (before / FILE).exists()
        shell.data_dir = served
        await asyncio.to_thread(shell, *NOTHING_SEALED)


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["worker"]], ids=lambda one: one[0])
async def test_a_server_with_another_key_than_the_first_partners_says_which_file_and_does_not_start(
    database_url: str, shell: Shell, tmp_path: Path, command: list[str]
):
    await asyncio.to_thread(shell, *NOTHING_SEALED)
    other = tmp_path / "other"
    Path(other).mkdir()
    (other / FILE).write_text("A" * 43)
    code, _, err = await mercato(*command, "--data-dir", other, MERCATO_DATABASE_URL=database_url)
    assert code == 1
    assert f"than {other / FILE} has" in err
    assert "MERCATO_DATA_DIR" in err
    keys = {"MERCATO_ENCRYPTION_KEYS": "B" * 43, "MERCATO_DATABASE_URL": database_url}
    code, _, err = await mercato(*command, "--data-dir", shell.data_dir, **keys)
    assert code == 1
    assert "than MERCATO_ENCRYPTION_KEYS has" in err


async def test_of_processes_that_begin_at_once_with_different_keys_one_is_the_databases(
    db: Database, tmp_path: Path
):
    directories = [tmp_path / str(number) for number in range(4)]
    bound = await asyncio.gather(*(bind(db, one) for one in directories), return_exceptions=True)
    assert len(roots(bound)) == 1
    assert sum(isinstance(one, VaultError) for one in bound) == len(directories) - 1
    [first] = [one for one, vault in zip(directories, bound, strict=True) if isinstance(vault, Vault)]
    assert roots([await bind(db, first)]) == roots(bound)


async def test_a_lost_key_is_not_replaced_though_nothing_is_sealed_yet(db: Database, tmp_path: Path):
    await bind(db, tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(VaultError, match=f"restore the file {FILE}"):
        await bind(db, tmp_path)
    assert not (tmp_path / FILE).exists()


async def test_a_key_that_moves_with_its_data_directory_or_into_a_setting_opens_the_database(
    db: Database, tmp_path: Path
):
    before = await bind(db, tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    assert roots([await bind(db, tmp_path / "after")]) == roots([before])
    async with db.write() as tx:
        given = (tmp_path / "after" / FILE).read_text().strip()
        assert roots([await encryption.bind_vault(tx, given, tmp_path / "none")]) == roots([before])
    assert not (tmp_path / "none").exists()


async def test_after_resealing_the_old_key_can_be_removed_though_there_is_no_partner(
    db: Database, tmp_path: Path
):
    old = await bind(db, tmp_path)
    file = tmp_path / FILE
    endpoints = WebhookEndpoints(old, clock.now, clock.new_id, AddressPolicy())
    async with db.write() as tx:
        request = WebhookEndpointRequest(url="https://alerts.example.com/hooks")
        made = await endpoints.create(tx, AS_OPERATORS, request)
    assert made.secret is not None
    new = base64.urlsafe_b64encode(os.urandom(32)).decode()
    file.write_text(f"{file.read_text()}{new}\n")
    await bind(db, tmp_path)
    file.write_text("\n".join(reversed(file.read_text().split())))
    both = await bind(db, tmp_path)
    async with db.write() as tx:
        assert (await encryption.reseal(tx, both, after=None, limit=10)).count == 1
    file.write_text(new)
    after = await bind(db, tmp_path)
    async with db.read() as tx:
        assert await encryption.count_unreadable(tx, after, limit=10) == 0
        with pytest.raises(VaultError):
            await encryption.check_vault(tx, old, source="the old file")

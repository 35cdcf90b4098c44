"""Messages of commands for wrong usage and unusual environments."""

import json
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from tests.databases import only_sqlite
from tests.forks import start
from tests.processes.test_serve import environment, mercato, partner


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nosuch",), 'Unknown command "nosuch".'),
        (("worker", "--bogus"), "Unknown option: --bogus."),
        (("worker", "here"), "Unexpected argument: here"),
        (("partner", "create", "POS"), "--kind requires an argument."),
        (("webhooks", "show", "abc"), 'unable to convert "abc" into UUID.'),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else "",
)
async def test_wrong_usage_names_the_help_to_read(arguments: tuple[str, ...], told: str):
    code, out, err = await mercato(*arguments)
    what, where = err.splitlines()
    assert (code, out) == (2, "")
    assert told in what
    name = [one for one in arguments[:2] if one in {"worker", "partner", "create", "webhooks", "show"}]
    assert where == f"See: {' '.join(['mercato', *name])} --help"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lint", "mercato catalog lint?"),
        ("explain", "mercato webhooks explain?"),
        ("merchant", "mercato certify merchant or mercato sandbox merchant?"),
        ("create", "mercato partner create or mercato key create?"),
    ],
)
async def test_a_command_without_its_group_is_answered_with_its_whole_name(name: str, meant: str):
    code, out, err = await mercato(name)
    assert (code, out) == (2, "")
    assert err == f'Unknown command "{name}". Did you mean {meant}\nSee: mercato --help\n'


@only_sqlite
@pytest.mark.parametrize("command", ["serve", "worker", "migrate", "doctor"])
async def test_an_empty_data_directory_is_not_the_current_one(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_kind: str
):
    monkeypatch.chdir(tmp_path)
    code, _, err = await mercato(command, "--data-dir", "")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "--data-dir: it is empty, leave it out for the default" in err


@pytest.mark.parametrize("host", ["é..é", "a" * 300])
@pytest.mark.parametrize("command", [("serve",), ("listen",), ("sandbox", "merchant")], ids="-".join)
async def test_an_invalid_host_is_reported_without_a_traceback(
    command: tuple[str, ...], host: str, tmp_path: Path
):
    code, _, err = await mercato(*command, "--host", host, "--port", "0", MERCATO_DATA_DIR=str(tmp_path))
    assert code in {1, 2}
    assert host in err
    assert "Traceback" not in err


IN_ASCII = """
import sys
from mercato_tools.cli.main import main
# What PYTHONIOENCODING=ascii does to a program that is started with it.
for stream in (sys.stdout, sys.stderr):
    stream.reconfigure(encoding="ascii")
main()
"""


@only_sqlite
async def test_a_terminal_that_lacks_characters_gets_question_marks(tmp_path: Path, database_kind: str):
    (tmp_path / "in_ascii.py").write_text(IN_ASCII)

    async def shown(*arguments: str) -> str:
        process = await start(
            *arguments, module="in_ascii", cwd=tmp_path, env=environment(), stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        return out.decode()

    assert "12h, ?" in await shown("audit", "--help")
    await mercato("partner", "create", "Café", "--kind", "both", "--data-dir", tmp_path)
    data = ("--data-dir", str(tmp_path))
    assert "Caf?" in await shown("partner", "list", *data)
    assert json.loads(await shown("partner", "list", "--json", *data))["partners"][0]["name"] == "Café"


@only_sqlite
async def test_a_database_that_cannot_be_opened_is_not_reported_as_in_use(tmp_path: Path, database_kind: str):
    await partner(tmp_path / "data")
    copy, other = tmp_path / "copy.db", tmp_path / "other"
    assert (await mercato("backup", copy, "--data-dir", tmp_path / "data"))[0] == 0
    # Nothing is forbidden to root, but a directory is no file to it either.
    (other / "mercato.db").mkdir(parents=True)
    code, _, err = await mercato("partner", "list", "--data-dir", other)
    assert (code, "allowed to read and to write" in err) == (1, True), err
    code, _, err = await mercato("restore", copy, "--replace", "--data-dir", other)
    assert (code, "cannot be written" in err, "in use" in err) == (1, True, False), err


@only_sqlite
async def test_a_backup_that_cannot_be_written_is_named(tmp_path: Path, database_kind: str):
    await partner(tmp_path / "data")
    code, _, err = await mercato("backup", tmp_path / ("x" * 250), "--data-dir", tmp_path / "data")
    assert (code, err) == (1, f"A file cannot be made in {tmp_path}: File name too long.\n")

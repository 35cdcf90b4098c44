"""`mercato partner create … --json`, and keys and secrets from the command line."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.databases import mostly_sqlite, on_both, only_postgresql, only_sqlite, with_database
from tests.forks import inherited, program

from mercato.features.partners import accounts, credentials
from mercato.features.partners.callers import Callers, Tokens
from mercato.features.partners.model import is_whole
from mercato.features.partners.vault import FILE, Vault, load_keys
from mercato.features.partners.webhook_tokens import get_webhook_tokens
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato_tools.cli.commands import app as commands
from mercato_tools.cli.main import run

pytestmark = mostly_sqlite

MERCATO = Path(sys.executable).with_name("mercato")


class Shell:
    """Runs commands in this process on one data directory and one database."""

    def __init__(self, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data_dir = data_dir
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Return standard output of a command that ends with the exit code."""
        self._capsys.readouterr()
        ended = run([*arguments, "--data-dir", str(self.data_dir)])
        out, self.err = self._capsys.readouterr()
        assert ended == code, self.err
        assert "Traceback" not in self.err
        return out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def vault(self) -> Vault:
        return Vault(load_keys(None, self.data_dir))


@pytest.fixture
def shell(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    monkeypatch.setenv("MERCATO_DATABASE_URL", database_url)
    yield Shell(tmp_path, capsys)
    structlog.reset_defaults()


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """A shell whose embedded database does not exist yet."""
    monkeypatch.delenv("MERCATO_DATABASE_URL", raising=False)
    yield Shell(tmp_path / "new" / "data", capsys)
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("commerce", {"partnerId", "commerceKey", "commerceKeyId", "signingSecret"}),
        ("marketfront", {"partnerId", "marketfrontKey", "marketfrontKeyId", "signingSecret"}),
        (
            "both",
            {
                "partnerId",
                "commerceKey",
                "commerceKeyId",
                "marketfrontKey",
                "marketfrontKeyId",
                "signingSecret",
            },
        ),
    ],
)
def test_partner_create_prints_exactly_the_contracts_json(shell: Shell, kind: str, members: set[str]) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", kind)
    assert set(made) == members
    assert shell.err == ""
    for name, value in made.items():
        if name.endswith("Key"):
            assert value.startswith(f"mk_{name.removesuffix('Key')}_")
            assert is_whole(value.encode())
    assert made["signingSecret"].startswith("whsec_")


@pytest.mark.parametrize("command", [("secret", "list"), ("secret", "rotate"), ("key", "create")])
def test_a_partner_is_named_with_or_without_the_option(shell: Shell, command: tuple[str, str]) -> None:
    partner = shell.json("partner", "create", "Acme", "--kind", "commerce")["partnerId"]
    for named in (("Acme",), ("--partner", "Acme")):
        assert shell.json(*command, *named)["partnerId"] == partner


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert run([*command, "--help"]) == 0
    return capsys.readouterr().out


def test_no_command_is_listed_without_a_description(capsys: pytest.CaptureFixture[str]) -> None:
    names = {name for name in commands if not name.startswith("-")}
    groups = [name for name in names if commands[name].default_command is None]
    assert len(groups) > 10
    for group in ([], *([name] for name in groups)):
        listed = re.findall(r"^│ ([a-z-]+) *(.*?) *│$", help_of(capsys, *group), re.MULTILINE)
        assert listed
        assert [name for name, words in listed if not words] == []


@pytest.mark.parametrize("command", ["doctor", "webhooks explain", "certify verify"])
def test_a_commands_own_help_has_its_exit_codes(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert "Exit code 0" in help_of(capsys, *command.split())


def test_a_webhook_token_is_refused_for_a_partner_without_stores(shell: Shell) -> None:
    refused = ("partner", "create", "Shop", "--kind", "marketfront", "--webhook-token", "hunter2")
    shell(*refused, code=1)
    assert "A marketfront partner has no stores" in shell.err
    assert "Leave --webhook-token out" in shell.err
    assert "hunter2" not in shell.err


async def known(database_url: str, key: str) -> Any:
    async with Database.open(database_url) as db:
        return await Callers(db, ChangeFeed(db), Tokens([b""])).get(key.encode())


def test_a_key_created_on_the_command_line_is_accepted(shell: Shell, database_url: str) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "commerce")
    caller = asyncio.run(known(database_url, made["commerceKey"]))
    assert str(caller.partner_id) == made["partnerId"]
    assert str(caller.key_id) == made["commerceKeyId"]


def test_webhook_token_and_event_url_are_stored(shell: Shell, database_url: str) -> None:
    made = shell.json(
        *("partner", "create", "Acme", "--kind", "both"),
        *("--webhook-token", "hunter2", "--event-url", "https://example.com/events"),
    )

    async def stored() -> Any:
        async with Database.open(database_url) as db, db.read() as tx:
            partner = await accounts.get_partner_named(tx, made["partnerId"])
            token = await get_webhook_tokens(tx, shell.vault(), partner.id)
            return token, partner.event_url, await accounts.get_signing_secrets(tx, shell.vault(), partner.id)

    assert asyncio.run(stored()) == ({"": "hunter2"}, "https://example.com/events", [made["signingSecret"]])


def test_keys_are_never_wrapped_on_the_screen(shell: Shell) -> None:
    out = shell("partner", "create", "Acme", "--kind", "both")
    keys = [line.split()[-1] for line in out.splitlines() if " key " in line]
    assert len(keys) == 2
    assert all(is_whole(key.encode()) for key in keys)
    assert "cannot be shown again" in shell.err


def test_a_new_data_directory_is_created_with_its_database_and_key(fresh: Shell) -> None:
    made = fresh.json("partner", "create", "Acme", "--kind", "commerce")
    assert "Creating a new database" in fresh.err
    assert {path.name for path in fresh.data_dir.iterdir()} >= {"mercato.db", FILE}
    assert [one["partnerId"] for one in fresh.json("partner", "list")["partners"]] == [made["partnerId"]]


def test_a_list_creates_no_database(fresh: Shell) -> None:
    assert fresh("partner", "list", code=2) == ""
    assert "There is no database in" in fresh.err
    assert not fresh.data_dir.exists()


@on_both
def test_lists_show_names_unchanged_and_no_keys(shell: Shell) -> None:
    made = shell.json("partner", "create", "[bold]Acme[/]", "--kind", "both")
    listed = shell("partner", "list") + shell("key", "list") + shell("secret", "list", "[bold]Acme[/]")
    assert "[bold]Acme[/]" in listed
    assert made["partnerId"] in listed
    for secret in ("commerceKey", "marketfrontKey", "signingSecret"):
        assert made[secret] not in listed


def test_empty_lists_say_what_to_do(shell: Shell) -> None:
    assert "mercato partner create" in shell("partner", "list")
    assert "mercato key create" in shell("key", "list")
    assert shell.json("key", "list") == {"keys": []}


def test_partner_update_changes_what_is_given_and_nothing_else(shell: Shell) -> None:
    shell.json("partner", "create", "Acme", "--kind", "both", "--event-url", "https://a.example")
    shell("partner", "update", "Acme", "--reads", "5", "--discovery", "7")
    shell("partner", "update", "Acme", "--reads", "0", "--webhook-token", "t")
    (one,) = shell.json("partner", "list")["partners"]
    assert one["limits"] == {"reads": None, "writes": None, "discovery": 7}
    assert (one["hasWebhookToken"], one["eventUrl"]) == (True, "https://a.example")
    shell("partner", "update", "Acme", "--event-url", "", "--webhook-token", "")
    (one,) = shell.json("partner", "list")["partners"]
    assert (one["hasWebhookToken"], one["eventUrl"]) == (False, None)


def test_an_event_url_that_a_server_with_these_settings_never_calls_is_stored_and_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://shop.example/events"
    assert shell.json("partner", "create", "Acme", "--kind", "marketfront", "--event-url", url)["partnerId"]
    assert "mercato serve --dev" in shell.err
    assert "For any other, the event URL must begin with https://." in shell.err
    shell("partner", "update", "Acme", "--event-url", "https://10.0.0.1/")
    assert "For any other, the event URL leads to an address that is not public." in shell.err
    (one,) = shell.json("partner", "list")["partners"]
    assert one["eventUrl"] == "https://10.0.0.1/"
    for allowed, stored in (("false", "https://shop.example/"), ("true", url)):
        monkeypatch.setenv("MERCATO_ALLOW_PRIVATE_NETWORKS", allowed)
        shell("partner", "update", "Acme", "--event-url", stored)
        assert "For any other" not in shell.err


def test_a_token_is_for_one_host_which_the_command_names(shell: Shell) -> None:
    shell.json("partner", "create", "Acme", "--kind", "commerce")
    shell("partner", "update", "Acme", "--webhook-token", "t")
    assert "the first webhookUrl" in shell.err
    shell(
        "partner", "update", "Acme", "--webhook-token", "t", "--webhook-origin", "https://pos.example/hooks"
    )
    assert "Tokens go to https://pos.example." in shell.err
    shell("partner", "update", "Acme", "--webhook-origin", "https://pos.example", code=2)
    assert "--webhook-token" in shell.err
    shell("partner", "update", "Acme", "--webhook-token", "t", "--webhook-origin", "pos.example", code=1)
    assert "https://pos.example.com" in shell.err


def test_a_changed_event_url_is_announced_at_the_old_one(shell: Shell) -> None:
    old, new = "https://old.example/events?key=1", "https://new.example/events"
    shell.json("partner", "create", "Acme", "--kind", "marketfront", "--event-url", old)
    shell("partner", "update", "Acme", "--event-url", "https://old.example/others")
    assert shell.json("webhooks", "list")["deliveries"] == []
    shell("partner", "update", "Acme", "--event-url", new)
    (sent,) = shell.json("webhooks", "list")["deliveries"]
    assert (sent["type"], sent["url"]) == ("endpoint.changed", "https://old.example/others")
    assert shell.json("webhooks", "show", sent["id"])["body"]["data"] == {
        "endpoint": "eventUrl",
        "previousOrigin": "https://old.example",
        "origin": "https://new.example",
        "tokenSent": False,
    }


def test_a_key_is_created_rolled_and_revoked(shell: Shell, database_url: str) -> None:
    shell.json("partner", "create", "Acme", "--kind", "commerce")
    first = shell.json("key", "create", "Acme", "--description", "till 1", "--expires-in", "90d")
    second = shell.json("key", "roll", first["keyId"], "--overlap", "1h")
    shell("key", "revoke", second["key"])
    ended = shell.json("key", "revoke", second["keyId"])
    assert (ended["keyId"], ended["state"]) == (second["keyId"], "revoked")
    entries = {one["keyId"]: one for one in shell.json("key", "list", "--partner", "Acme")["keys"]}
    assert len(entries) == 3
    assert {entry["partnerName"] for entry in entries.values()} == {"Acme"}
    assert shell("key", "list", "--partner", "Acme") == shell("key", "list", "Acme")
    assert entries[first["keyId"]]["state"] == "active"
    assert entries[second["keyId"]]["state"] == "revoked"
    assert {entries[one["keyId"]]["description"] for one in (first, second)} == {"till 1"}
    assert asyncio.run(known(database_url, first["key"])).surface == "commerce"


def test_revoking_a_key_says_which_keys_descend_from_it_and_revokes_them_on_request(
    shell: Shell, database_url: str
) -> None:
    shell.json("partner", "create", "Acme", "--kind", "commerce")
    parent = shell.json("key", "create", "Acme")
    child = asyncio.run(make_child(database_url, parent["keyId"]))
    entries = {one["keyId"]: one for one in shell.json("key", "list", "--partner", "Acme")["keys"]}
    assert (entries[child]["parentKeyId"], entries[parent["keyId"]]["parentKeyId"]) == (
        parent["keyId"],
        None,
    )
    assert "--with-descendants" not in shell("key", "revoke", parent["keyId"])
    assert "--with-descendants" in shell.err
    first = shell.json("key", "revoke", parent["keyId"])
    assert [(one["keyId"], one["state"]) for one in first["descendants"]] == [(child, "active")]
    second = shell.json("key", "revoke", parent["keyId"], "--with-descendants")
    assert [(one["keyId"], one["state"]) for one in second["descendants"]] == [(child, "revoked")]
    assert shell.json("key", "revoke", child)["descendants"] == []


async def make_child(url: str, parent_id: str) -> str:
    """Create a key as a console session of the parent does, and return its id."""
    async with Database.open(url) as db, db.write() as tx:
        parent = await credentials.get_key(tx, parent_id)
        partner = await accounts.get_partner(tx, parent.partner_id)
        made = await credentials.create_key(tx, partner, surface=parent.surface, parent=parent)
    return str(made.id)


@on_both
def test_people_are_invited_listed_and_removed_by_commands(shell: Shell) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "commerce")
    invited = shell.json("console", "invite", " Ada Lovelace ", "--role", "manager", "--partner", "Acme")
    assert invited["url"].startswith("http://localhost:8000/console/links/"), "a name that passkeys belong to"
    assert (invited["name"], invited["role"], invited["partnerId"]) == (
        "Ada Lovelace",
        "manager",
        made["partnerId"],
    )
    assert shell("console", "invite", "Sue", "--role", "support", "--operator").startswith("http://localhost")
    for who, role, account, says in (
        ("Ada Lovelace", "support", ("--partner", "Acme"), "has this name"),
        ("Eve", "admin", ("--partner", "Acme"), "Manager, Support, Read only"),
        ("Eve", "manager", ("--operator",), "Admin, Support"),
        ("\n", "support", ("--operator",), "characters that can be seen"),
    ):
        shell("console", "invite", who, "--role", role, *account, code=1)
        assert says in shell.err
    listed = shell.json("console", "people", "--partner", "Acme")["people"]
    assert [(one["name"], one["role"], one["joinedAt"]) for one in listed] == [
        ("Ada Lovelace", "manager", None)
    ]
    assert "Support" in shell("console", "people", "--operator")
    shell("console", "remove-person", "Sue", "--partner", "Acme", code=2)
    assert "no person" in shell.err
    shell("console", "remove-person", "Ada Lovelace", "--partner", "Acme")
    assert shell.json("console", "people", "--partner", "Acme")["people"] == []
    actions = [one["action"] for one in shell.json("audit", "--partner", "Acme")["entries"]]
    assert actions[:2] == ["console remove-person", "console invite"]
    for command in (("people",), ("invite", "Ada", "--role", "admin"), ("remove-person", "Ada")):
        shell("console", *command, code=2)
        assert "--operator, or --partner" in shell.err


def test_keys_are_listed_with_their_partners_and_one_partners_alone(shell: Shell) -> None:
    for name in ("Acme", "Bistro"):
        shell.json("partner", "create", name, "--kind", "commerce")
    assert [one["partnerName"] for one in shell.json("key", "list")["keys"]] == ["Acme", "Bistro"]
    assert [one["partnerName"] for one in shell.json("key", "list", "--partner", "Bistro")["keys"]] == [
        "Bistro"
    ]
    shown = shell("key", "list")
    assert "Partner" in shown
    assert all(name in shown for name in ("Acme", "Bistro"))


def test_a_key_for_a_partner_of_both_kinds_needs_a_surface(shell: Shell) -> None:
    shell.json("partner", "create", "Acme", "--kind", "both")
    shell("key", "create", "Acme", code=2)
    assert "--surface commerce or --surface marketfront" in shell.err
    assert shell.json("key", "create", "Acme", "--surface", "marketfront")["surface"] == "marketfront"


def test_a_rotated_secret_signs_beside_the_old_one(shell: Shell) -> None:
    made = shell.json("partner", "create", "Acme", "--kind", "commerce")
    new = shell.json("secret", "rotate", "Acme", "--overlap", "1h")
    secrets = shell.json("secret", "list", "Acme", "--reveal")["secrets"]
    assert [one["signingSecret"] for one in secrets] == [new["signingSecret"], made["signingSecret"]]
    assert [one["expiresAt"] is None for one in secrets] == [True, False]
    assert {one["signingSecret"] for one in shell.json("secret", "list", "Acme")["secrets"]} == {None}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nonsense"], 2),
        (["partner", "create"], 2),
        (["partner", "create", "X", "--kind", "wholesale"], 2),
        (["partner", "create", "X", "--kind", "commerce", "--colour", "red"], 2),
        (["partner", "create", "", "--kind", "commerce"], 1),
        (["partner", "create", "X", "--kind", "commerce", "--event-url", "https://x.example"], 1),
        (["partner", "create", "X", "--kind", "marketfront", "--event-url", "ftp://x.example"], 1),
        (["key", "list", "Nobody"], 1),
        (["key", "revoke", "\udcff"], 1),
        (["key", "roll", "x", "--overlap", "1 fortnight"], 2),
        (["key", "roll", "x", "--overlap", "9999999999d"], 2),
        (["key", "create", "X", "--expires-in", "0s"], 2),
        (["secret", "rotate", "Nobody"], 1),
    ],
)
def test_failures_are_reported_on_standard_error_only(shell: Shell, arguments: list[str], code: int) -> None:
    assert shell(*arguments, code=code) == ""
    assert shell.err.strip()


def test_a_token_that_is_refused_is_not_repeated(shell: Shell) -> None:
    shell("partner", "create", "X", "--kind", "commerce", "--webhook-token", "hunter2 hunter2", code=1)
    assert "hunter2" not in shell.err


def test_an_unknown_setting_stops_the_command(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERCATO_DATA_DUR", "x")
    shell("partner", "list", code=2)
    assert "Did you mean MERCATO_DATA_DIR" in shell.err


@on_both
@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/d", "postgresql://u:hunter2@[::1/d"])
def test_an_invalid_database_url_is_refused_and_not_repeated(
    fresh: Shell, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("MERCATO_DATABASE_URL", url)
    fresh("partner", "list", code=2)
    assert "MERCATO_DATABASE_URL" in fresh.err
    assert "hunter2" not in fresh.err


@pytest.mark.parametrize("command", [("list",), ("create", "X", "--kind", "commerce")])
def test_an_unavailable_database_is_reported(
    fresh: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MERCATO_DATABASE_URL", f"postgresql://u:hunter2@/d?host={tmp_path}")
    fresh("partner", *command, code=1)
    assert "Check that it is running" in fresh.err
    assert "hunter2" not in fresh.err


@pytest.mark.parametrize("command", [("list",), ("create", "X", "--kind", "commerce")])
def test_a_database_server_that_refuses_connections_is_named(
    fresh: Shell, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MERCATO_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/d")
    fresh("partner", *command, code=1)
    assert "127.0.0.1" in fresh.err
    assert "MERCATO_DATABASE_URL" in fresh.err
    assert "hunter2" not in fresh.err


def test_a_missing_directory_of_the_database_is_named(
    fresh: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MERCATO_DATABASE_URL", f"sqlite:///{tmp_path}/missing/x.db")
    fresh("partner", "create", "X", "--kind", "commerce", code=2)
    assert f"There is no directory {tmp_path}/missing for the database." in fresh.err


@pytest.mark.parametrize("command", [("list",), ("create", "X", "--kind", "commerce")])
def test_a_file_that_is_not_a_database_is_reported(fresh: Shell, command: tuple[str, ...]) -> None:
    fresh.data_dir.mkdir(parents=True)
    (fresh.data_dir / "mercato.db").write_text("something else " * 1000)
    fresh("partner", *command, code=1)
    assert "not a database. Restore a backup: mercato restore FILE --replace" in fresh.err


@on_both
@on_both
@only_postgresql
@pytest.mark.parametrize("command", [("list",), ("create", "X", "--kind", "commerce")])
def test_a_missing_database_is_named(
    fresh: Shell, monkeypatch: pytest.MonkeyPatch, database_url: str, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MERCATO_DATABASE_URL", with_database(database_url, "nowhere"))
    fresh("partner", *command, code=1)
    assert '"nowhere" does not exist' in fresh.err


def test_a_database_without_tables_says_how_to_create_them(fresh: Shell) -> None:
    fresh.data_dir.mkdir(parents=True)
    (fresh.data_dir / "mercato.db").touch()
    fresh("partner", "list", code=1)
    assert "mercato migrate" in fresh.err


def test_a_data_directory_that_is_a_file_is_reported(fresh: Shell) -> None:
    fresh.data_dir.parent.mkdir()
    fresh.data_dir.touch()
    fresh("partner", "create", "X", "--kind", "commerce", code=2)
    assert "is not a directory" in fresh.err


def test_nothing_is_sealed_with_a_key_that_does_not_fit_the_database(shell: Shell) -> None:
    shell.json("partner", "create", "Acme", "--kind", "commerce")
    (shell.data_dir / FILE).unlink()
    shell("partner", "create", "Other", "--kind", "commerce", code=1)
    assert "restore the file encryption.key" in shell.err
    assert [one["name"] for one in shell.json("partner", "list")["partners"]] == ["Acme"]


# --- as processes of their own ------------------------------------------------------------------------


def environment(**settings: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")} | settings


@on_both
def test_the_command_itself_prints_json_and_nothing_else(
    database_url: str, database_kind: str, tmp_path: Path
) -> None:
    # As it is installed, with one kind of database.
    made = environment(MERCATO_DATABASE_URL=database_url, MERCATO_LOG_LEVEL="debug")
    command, options = (MERCATO, {"env": made}) if database_kind == "sqlite" else (program(), inherited(made))
    done = subprocess.run(
        [command, "partner", "create", "Acme", "--kind", "both", "--json", "--data-dir", tmp_path],
        **options,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["marketfrontKey"].startswith("mk_marketfront_")
    assert done.stderr == b""


@only_sqlite
def test_partners_created_at_once_in_a_new_directory_share_its_database_and_key(
    database_kind: str, tmp_path: Path
) -> None:
    options = ["--kind", "commerce", "--json", "--data-dir", str(tmp_path / "data")]
    running = [
        subprocess.Popen(
            [program(), "partner", "create", name, *options],
            stdout=subprocess.PIPE,
            **inherited(environment()),
        )
        for name in ("One", "Two", "Three")
    ]
    made = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    listed = subprocess.run(
        [program(), "partner", "list", "--json", "--data-dir", tmp_path / "data"],
        **inherited(environment()),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert {one["partnerId"] for one in json.loads(listed.stdout)["partners"]} == {
        one["partnerId"] for one in made
    }


def test_ctrl_c_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    command: list[str | Path] = [
        MERCATO,
        "partner",
        "create",
        "X",
        "--kind",
        "commerce",
        "--webhook-token",
        "@-",
        "--data-dir",
        tmp_path,
    ]
    waiting = subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _until_it_reads(waiting.pid)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (130, b"", b"Interrupted.\n")


def test_a_closed_pipe_ends_a_command_without_a_message(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [program(), "partner", "create", "X", "--kind", "commerce", "--data-dir", tmp_path, "--json"],
        **inherited(environment()), stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == f"Creating a new database in {tmp_path}.\n".encode()


def _until_it_reads(process: int) -> None:
    """Wait until the process sleeps in a read of its standard input."""
    call = Path(f"/proc/{process}/syscall")
    while not call.read_text().startswith("0 0x0 "):
        time.sleep(0.01)


def test_a_row_wider_than_the_terminal_is_printed_as_facts(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "A name that goes on and on, and on"
    made = shell.json("partner", "create", name, "--kind", "both")
    for columns in ("240", "80", "20"):
        monkeypatch.setenv("COLUMNS", columns)
        listed = shell("partner", "list")
        assert name in listed
        assert made["partnerId"] in listed
        assert (max(map(len, listed.splitlines())) <= 80) == (columns != "240")


@pytest.mark.parametrize("command", ["serve", "migrate", "worker", "restore"])
def test_a_data_directory_that_cannot_be_created_names_the_option(
    fresh: Shell, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.delenv("MERCATO_DATABASE_URL", raising=False)
    fresh.data_dir.parent.mkdir(exist_ok=True)
    fresh.data_dir.touch()
    file = (__file__,) if command == "restore" else ()
    fresh(command, *file, code=1 if command == "restore" else 2)
    assert f"The data directory {fresh.data_dir}" in fresh.err
    assert "Name another with --data-dir" in fresh.err


def test_an_update_without_changes_is_refused(shell: Shell) -> None:
    shell("partner", "create", "A", "--kind", "both")
    shell("partner", "update", "A", code=2)
    assert "Say what to change: --webhook-token" in shell.err


def test_erasing_a_customer_needs_a_name(shell: Shell) -> None:
    shell("customer", "erase", " ", code=2)
    assert "Name the customer" in shell.err


def test_a_deletion_is_first_described_in_80_columns_and_done_with_yes(shell: Shell) -> None:
    made = shell.json("partner", "create", "Old Shop", "--kind", "both")
    out = shell("partner", "delete", "Old Shop")
    assert "Keys              2" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "Nothing was deleted. Do it with --yes" in shell.err
    planned = shell.json("partner", "delete", "Old Shop")
    assert (planned["done"], planned["partnerId"], planned["keys"]) == (False, made["partnerId"], 2)
    assert shell.json("partner", "delete", "Old Shop", "--yes")["done"]
    assert shell.json("partner", "list")["partners"] == []
    shell("partner", "delete", "Old Shop", "--yes", code=1)


def test_a_suspended_partner_is_listed_as_suspended(shell: Shell) -> None:
    shell("partner", "create", "Acme", "--kind", "commerce")
    shell("partner", "suspend", "Acme")
    first = shell.json("partner", "list")["partners"][0]["suspendedAt"]
    assert first is not None
    shell("partner", "suspend", "Acme")
    assert shell.json("partner", "list")["partners"][0]["suspendedAt"] == first
    shell("partner", "resume", "Acme")
    assert shell.json("partner", "list")["partners"][0]["suspendedAt"] is None


def test_a_renamed_partner_is_found_by_its_new_name(shell: Shell) -> None:
    made = shell.json("partner", "create", "Old", "--kind", "commerce")
    shell("partner", "create", "Taken", "--kind", "commerce")
    shell("partner", "rename", "Old", "New")
    assert shell.json("key", "list", "New")["keys"][0]["partnerId"] == made["partnerId"]
    shell("partner", "rename", "New", "Taken", code=1)
    assert "A partner called Taken exists already." in shell.err


def test_a_file_with_secrets_is_readable_by_its_owner_only_and_ignored_by_git(
    shell: Shell, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path / "clone"], check=True)
    (tmp_path / "clone/deep").mkdir()
    commands = {
        "partner #1.json": ("partner", "create", "Acme", "--kind", "commerce"),
        "deep/key.json": ("key", "create", "Acme"),
        "secret.json": ("secret", "rotate", "Acme"),
    }
    for name, command in commands.items():
        file = tmp_path / "clone" / name
        assert shell(*command, "--out", str(file)) == ""
        assert file.stat().st_mode & 0o777 == 0o600
        assert "partnerId" in json.loads(file.read_bytes())
        assert "git ignores it" in shell.err
    rolled = json.loads((tmp_path / "clone/deep/key.json").read_bytes())["keyId"]
    shell("key", "roll", rolled, "--out", str(tmp_path / "clone/rolled.json"))
    seen = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(seen, cwd=tmp_path / "clone", capture_output=True, check=True).stdout == b""


def test_a_file_with_secrets_is_never_overwritten_and_none_is_left_by_a_failure(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "partner.json"
    shell("partner", "create", "Acme", "--kind", "commerce", "--out", str(file))
    before = file.read_bytes()
    shell("partner", "create", "Other", "--kind", "commerce", "--out", str(file), code=2)
    assert "exists already" in shell.err
    assert file.read_bytes() == before
    shell("partner", "create", "Acme", "--kind", "commerce", "--out", str(tmp_path / "again.json"), code=1)
    assert not (tmp_path / "again.json").exists()
    assert [one["name"] for one in shell.json("partner", "list")["partners"]] == ["Acme"]

"""Secrets are encrypted at rest with a key from the settings, or one generated into the data directory (0600)."""

import base64
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import PATIENCE

from mercato.features.partners.vault import FILE, Vault, VaultError, load_keys

ONE, TWO = b"1" * 32, b"2" * 32


def text_of(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


@given(st.text(), st.text())
def test_what_is_sealed_opens_again(text: str, context: str) -> None:
    vault = Vault([ONE])
    assert vault.open(vault.seal(text, context=context), context=context) == text


def test_the_same_text_is_never_sealed_the_same_twice() -> None:
    vault = Vault([ONE])
    assert vault.seal("secret", context="c") != vault.seal("secret", context="c")


def test_a_sealed_text_shows_nothing_of_it() -> None:
    assert b"hunter2" not in Vault([ONE]).seal("hunter2", context="c")


def test_what_was_sealed_for_one_place_does_not_open_in_another() -> None:
    vault = Vault([ONE])
    with pytest.raises(VaultError, match="changed or moved"):
        vault.open(vault.seal("secret", context="partner:1"), context="partner:2")


@given(st.data())
def test_a_changed_byte_anywhere_is_noticed(data: st.DataObject) -> None:
    vault = Vault([ONE])
    sealed = bytearray(vault.seal("secret", context="c"))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(VaultError):
        vault.open(bytes(sealed), context="c")


@given(st.binary(max_size=64))
def test_bytes_that_were_never_sealed_are_refused(garbage: bytes) -> None:
    with pytest.raises(VaultError):
        Vault([ONE]).open(garbage, context="c")


def test_a_cut_off_secret_is_refused() -> None:
    vault = Vault([ONE])
    sealed = vault.seal("secret", context="c")
    for length in range(len(sealed)):
        with pytest.raises(VaultError):
            vault.open(sealed[:length], context="c")


def test_keys_can_be_replaced_the_first_seals_and_all_open() -> None:
    old = Vault([ONE]).seal("secret", context="c")
    rotating = Vault([TWO, ONE])
    assert rotating.open(old, context="c") == "secret"
    assert Vault([TWO]).open(rotating.seal("new", context="c"), context="c") == "new"


def test_a_secret_of_a_missing_key_says_which_key_and_what_to_do() -> None:
    with pytest.raises(VaultError, match=r"\(id [0-9a-f]{8}\).*MERCATO_ENCRYPTION_KEYS.*encryption\.key"):
        Vault([TWO]).open(Vault([ONE]).seal("secret", context="c"), context="c")


@pytest.mark.parametrize("keys", [[], [b"short"], [ONE, b""]])
def test_a_vault_needs_whole_keys(keys: list[bytes]) -> None:
    with pytest.raises(VaultError):
        Vault(keys)


def test_a_vault_shows_no_key() -> None:
    shown = repr(Vault([ONE, TWO]))
    assert repr(ONE)[2:-1] not in shown
    assert text_of(ONE) not in shown


def test_keys_are_read_from_the_settings_in_their_order() -> None:
    assert load_keys(f"{text_of(TWO)}, {text_of(ONE).rstrip('=')}", None) == [TWO, ONE]


@pytest.mark.parametrize(
    "value", ["x", "hunter2hunter2", text_of(b"short"), f"{text_of(ONE)},", "é", "ä" * 44]
)
def test_an_unreadable_key_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(VaultError, match="MERCATO_ENCRYPTION_KEYS") as caught:
        load_keys(value, None)
    assert value not in str(caught.value)


def test_without_a_key_and_a_data_directory_the_error_says_how_to_create_one() -> None:
    with pytest.raises(VaultError, match=r"set MERCATO_ENCRYPTION_KEYS.*python -c"):
        load_keys(None, None)


def test_a_key_is_generated_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    keys = load_keys(None, tmp_path)
    assert load_keys("", tmp_path) == keys
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [tmp_path / FILE]


def test_a_key_file_may_hold_a_new_key_above_the_old_one(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(f"{text_of(TWO)}\n{text_of(ONE)}\n")
    assert load_keys(None, tmp_path) == [TWO, ONE]


@pytest.mark.parametrize("content", ["", "x", text_of(ONE)[:20]])
def test_a_damaged_key_file_is_named_and_not_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(VaultError, match=FILE):
        load_keys(None, tmp_path)
    assert (tmp_path / FILE).read_text() == content


def test_an_unusable_data_directory_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(VaultError, match="cannot be used"):
        load_keys(None, tmp_path / "file")


def test_processes_that_start_at_once_end_with_one_key(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from mercato.features.partners.vault import load_keys;"
        "print('ready', flush=True); sys.stdin.readline(); print(load_keys(None, Path(sys.argv[1]))[0].hex())"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert len(set(answers)) == 1
    assert answers[0].strip() == load_keys(None, tmp_path)[0].hex()
    assert [*tmp_path.iterdir()] == [tmp_path / FILE]

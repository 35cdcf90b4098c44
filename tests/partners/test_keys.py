"""Keys look like `mk_commerce_…`, so that secret scanners can find them, and are stored as a hash."""

import base64
import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato.features.partners import model
from mercato.features.partners.model import Surface

surfaces = pytest.mark.parametrize("surface", Surface)


@surfaces
def test_a_key_names_its_surface_and_has_at_least_160_random_bits(surface: Surface) -> None:
    key = model.new_key(surface)
    assert re.fullmatch(rf"mk_{surface}_[0-9A-Za-z]{{40}}", key)
    assert 62**model.RANDOM_LENGTH > 2**160


def test_a_prefix_leaves_more_than_160_bits_hidden() -> None:
    assert 62 ** (model.RANDOM_LENGTH - model.PREFIX_LENGTH) > 2**160


@surfaces
def test_no_two_keys_are_the_same(surface: Surface) -> None:
    assert len({model.new_key(surface) for _ in range(1000)}) == 1000


@surfaces
def test_a_scanner_finds_a_key_in_a_text_and_its_checksum_confirms_it(surface: Surface) -> None:
    key = model.new_key(surface)
    match = re.search(model.PATTERN, f'{{"Authorization": "Bearer {key}"}}')
    assert match is not None
    assert match[0] == key
    assert model.is_whole(match[0].encode())


@given(
    position=st.integers(0, 50),
    character=st.sampled_from(model.ALPHABET + "_-é "),
    surface=st.sampled_from(Surface),
)
def test_a_key_with_one_wrong_character_is_not_a_key(position: int, character: str, surface: Surface) -> None:
    key = model.new_key(surface)
    position %= len(key)
    changed = key[:position] + character + key[position + 1 :]
    assert model.is_whole(changed.encode()) is (changed == key)


@given(cut=st.integers(0, 51))
def test_a_truncated_key_is_not_a_key(cut: int) -> None:
    key = model.new_key(Surface.COMMERCE).encode()
    assert model.is_whole(key[:cut]) is (cut >= len(key))


@given(st.binary(max_size=200))
def test_any_bytes_can_be_looked_up(token: bytes) -> None:
    assert not model.is_whole(token)
    assert not model.looks_like_key(token)


@surfaces
def test_a_prefix_shows_six_characters_of_a_key(surface: Surface) -> None:
    key = model.new_key(surface)
    assert model.prefix(key) == key[: len(f"mk_{surface}_") + 6]


def test_what_is_stored_of_a_key_is_its_sha256() -> None:
    assert model.digest(b"mk_commerce_x") == hashlib.sha256(b"mk_commerce_x").digest()


def test_a_signing_secret_is_whsec_and_32_random_bytes() -> None:
    secrets = {model.new_signing_secret() for _ in range(100)}
    assert len(secrets) == 100
    for secret in secrets:
        assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32

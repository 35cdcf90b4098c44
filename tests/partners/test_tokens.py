"""Access tokens: one spelling, one signer, one purpose."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from tests.partners.support import TOKENS

from mercato.features.partners import model
from mercato.features.partners.callers import PURPOSE, AccessToken, Claims, Tokens
from mercato.features.partners.model import Surface
from mercato.features.partners.vault import Vault
from mercato_contract.clock import new_id

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
CLAIMS = Claims(new_id(), new_id(), 1_800_000_000)


def signers(*letters: bytes) -> Tokens:
    return Tokens(Vault([letter * 32 for letter in letters]).derive(PURPOSE))


@given(st.uuids(), st.uuids(), st.integers(0, 2**32 - 1))
def test_a_token_says_what_was_signed(key_id: UUID, partner_id: UUID, expires_at: int) -> None:
    claims = Claims(key_id, partner_id, expires_at)
    text = TOKENS.sign(claims)
    assert TOKENS.find(text.encode()) == claims
    assert len(text) == 95


def test_no_other_spelling_of_a_token_is_read() -> None:
    text = TOKENS.sign(CLAIMS)
    for place in range(len(text)):
        for char in {ALPHABET[(ALPHABET.find(text[place]) + step) % 64] for step in (1, 2, 32)}:
            assert TOKENS.find((text[:place] + char + text[place + 1 :]).encode()) is None, (place, char)


def test_what_is_not_a_whole_token_is_not_read() -> None:
    text = TOKENS.sign(CLAIMS)
    wrong = [
        "",
        "mt_",
        text[:-1],
        text[3:],
        text + "A",
        text + "=",
        text + "\n",
        " " + text,
        "MT_" + text[3:],
    ]
    assert [one for one in wrong if TOKENS.find(one.encode()) is not None] == []


@given(st.binary(max_size=200))
def test_garbage_is_not_read(garbage: bytes) -> None:
    assert TOKENS.find(garbage) is None
    assert TOKENS.find(b"mt_" + garbage) is None


def test_tokens_are_not_taken_for_keys_nor_keys_for_tokens() -> None:
    token, key = TOKENS.sign(CLAIMS).encode(), model.new_key(Surface.MARKETFRONT).encode()
    assert model.looks_like_token(token)
    assert not model.looks_like_key(token)
    assert not model.looks_like_token(key)


def test_a_token_outlives_the_rotation_of_the_encryption_key_until_the_old_one_is_gone() -> None:
    old = signers(b"a").sign(CLAIMS).encode()
    rotating = signers(b"b", b"a")
    assert rotating.find(old) == CLAIMS
    assert signers(b"b").find(rotating.sign(CLAIMS).encode()) == CLAIMS
    assert signers(b"b").find(old) is None


def test_text_signed_for_another_purpose_is_not_a_token() -> None:
    vault = Vault([b"a" * 32])
    assert vault.derive(PURPOSE) != vault.derive("orders") != [b"a" * 32]
    assert Tokens(vault.derive(PURPOSE)).find(Tokens(vault.derive("orders")).sign(CLAIMS).encode()) is None


def test_no_repr_shows_a_token() -> None:
    assert "secret" not in repr(AccessToken("secret", 3600))

"""Decisions §8: signatures are HMAC-SHA256, for messages and keys of any length."""

import hmac

import pytest

from mercato.kernel import mac


@pytest.mark.parametrize("key", [b"", b"k", b"k" * 32, b"k" * 64, b"k" * 65, b"k" * 1000])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 2046, 2047, 2048, 4094, 4095, 100_000])
def test_signatures_equal_those_of_the_standard_library(key: bytes, size: int):
    message = bytes(number % 251 for number in range(size))
    assert mac.sign(key, message) == hmac.digest(key, message, "sha256")

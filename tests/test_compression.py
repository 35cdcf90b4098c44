"""Bodies are stored compressed and read byte for byte, also by later versions."""

from base64 import b64decode

import pytest
from backports import zstd

from mercato.features.compression import compress, decompress
from mercato_contract.wire import as_json

LINES = [{"itemId": f"{n:08x}-0000-7000-8000-{n * 7919:012x}", "name": f"Dish {n}"} for n in range(40)]
CONTENT = as_json({"cart": {"lineItems": LINES}})
EVENT = as_json({"type": "order.updated", "data": {"sequence": 3, "order": {"cart": {"lineItems": LINES}}}})
SHORT = b'{"type":"order.place","data":{"orderId":"1","order":{"state":"open","status":"ready"}}}'


@pytest.mark.parametrize("body", [b"", b"ok", bytes(range(256)), EVENT, b"x" * 2**20])
@pytest.mark.parametrize("base", [b"", CONTENT])
def test_a_stored_body_is_read_byte_for_byte(body: bytes, base: bytes):
    stored = compress(body, base=base)
    assert decompress(stored, base=compress(base)) == body
    assert base or len(stored) <= len(body) + 1


def test_only_the_differences_of_a_body_about_an_order_are_stored():
    assert len(compress(EVENT, base=CONTENT)) < 80 < len(compress(EVENT)) / 4


def test_a_body_is_never_decompressed_with_a_wrong_base():
    stored = compress(EVENT, base=CONTENT)
    with pytest.raises(ValueError, match="base"):
        decompress(stored)
    with pytest.raises(zstd.ZstdError):
        decompress(stored, base=compress(CONTENT.replace(b"Dish 7", b"Dish X")))


@pytest.mark.parametrize(
    "stored",
    [
        "AG9r",
        "ASi1L/0kVwUBACgxIn19fQgAaMUAAgSCmoIAGMLAN8JHYVEwQFwQqshAhWIEcQ==",
        "Aii1L/0kV4UAAAAFQADHjNlR+BmyCHzhK3KFYgRx",
    ],
)
def test_bodies_stored_by_earlier_versions_are_read(stored: str):
    body = b"ok" if stored == "AG9r" else SHORT
    assert decompress(b64decode(stored), base=compress(SHORT * 2)) == body

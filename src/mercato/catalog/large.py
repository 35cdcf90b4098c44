"""The process that builds one large document: standard input to standard output, its memory gone when it ends."""

import gc
import sys

import msgspec

from mercato.catalog.build import build_alone
from mercato.catalog.builder import NO_MEMORY, LargeBuild
from mercato.catalog.built import Built, Result
from mercato.catalog.compress import compress
from mercato.processes import exit_with_parent, limit_memory


def main() -> None:
    """Build the document and write its result. Started by `Builder` with a LargeBuild as argument."""
    told = msgspec.json.decode(sys.argv[1], type=LargeBuild)
    exit_with_parent(told.parent)
    limit_memory(told.memory)
    gc.disable()
    try:
        sys.stdout.buffer.write(msgspec.msgpack.encode(_build(told)))
        sys.stdout.buffer.flush()
    except MemoryError:
        sys.exit(NO_MEMORY)


def _build(told: LargeBuild) -> Result:
    result = build_alone(
        sys.stdin.buffer.read(),
        onboarding_id=told.onboarding_id,
        catalog_set_id=told.catalog_set_id,
        store_id=told.store_id,
        default_currency=told.default_currency,
        previous_hash=told.previous_hash,
    )
    if not isinstance(result, Built):
        return result
    # Here, where the served bytes are: the service never holds all of them.
    bodies = compress(result.body) if told.serves else {}
    return msgspec.structs.replace(result, body=b"", bodies=bodies)

"""The process that builds large documents, one at a time: tasks on standard input, results on standard output.

A message is its length in 8 bytes and its MessagePack; a task's document follows it.
"""

import gc
import sys

import msgspec

from mercato.features.catalogs.building.build import build_uncollected
from mercato.features.catalogs.building.model import LENGTH, NO_MEMORY, Built, Result, Task
from mercato.features.catalogs.building.packed import compress
from mercato.platform.processes import exit_with_parent, limit_memory


def main() -> None:
    """Build documents until the input ends. `Builder` starts it with its process id and the bytes of memory."""
    parent, memory = map(int, sys.argv[1:])
    exit_with_parent(parent)
    limit_memory(memory)
    gc.disable()
    read, output = sys.stdin.buffer.read, sys.stdout.buffer
    try:
        while length := read(LENGTH):
            task = msgspec.msgpack.decode(read(int.from_bytes(length)), type=Task)
            result = msgspec.msgpack.encode(
                _compressed(build_uncollected(read(task.size), task.request), task)
            )
            output.write(len(result).to_bytes(LENGTH))
            output.write(result)
            output.flush()
            del result
            gc.collect()
    except MemoryError:
        sys.exit(NO_MEMORY)


def _compressed(result: Result, task: Task) -> Result:
    if not isinstance(result, Built):
        return result
    # Here, where the served bytes are: the service never holds all of them.
    bodies = compress(result.body) if task.serves else {}
    return msgspec.structs.replace(result, body=b"", bodies=bodies)

"""A load generator that costs little beside what it loads: keep-alive connections, one request on each at a time."""

import select
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.load import LENGTH, Load, Processor

CONNECTIONS = 16
MOST_SECONDS = 60.0
END = b"\r\n\r\n"


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    began: float = 0.0
    received: bytearray = field(default_factory=bytearray)

    def send(self, request: bytes) -> None:
        self.began = time.perf_counter()
        self.socket.sendall(request)

    def answered(self) -> bool:
        """Take what has arrived; tell whether the answer is complete. Raises if it is not a success."""
        data = self.socket.recv(262_144)
        if not data:
            raise RuntimeError("the server closed the connection")
        self.received += data
        head, found, _ = self.received.partition(END)
        if not found:
            return False
        if not head.startswith((b"HTTP/1.1 2", b"HTTP/1.1 304")):
            raise RuntimeError(bytes(self.received).decode())
        length = LENGTH.search(head)
        size = len(head) + len(END) + (int(length[1]) if length is not None else 0)
        if len(self.received) < size:
            return False
        self.received.clear()
        return True


def hammer(
    process: Processor,
    port: int,
    requests: Iterable[bytes],
    *,
    seconds: float = MOST_SECONDS,
    connections: int = CONNECTIONS,
) -> Load:
    """Send the requests, each once, until they or the seconds are over."""
    latencies: list[float] = []
    before, began = process.cpu_times(), time.perf_counter()
    _drive(port, iter(requests), latencies, until=began + seconds, connections=connections)
    took, after = time.perf_counter() - began, process.cpu_times()
    cpu = (after.user - before.user) + (after.system - before.system)
    count = len(latencies)
    return Load(per_second=count / took, cpu_us=cpu / count * 1e6, latencies=latencies)


def _drive(
    port: int, requests: Iterator[bytes], latencies: list[float], *, until: float, connections: int
) -> None:
    poll = select.epoll()
    busy: dict[int, _Connection] = {}
    try:
        for request in _first(requests, connections):
            made = _Connection(socket.create_connection(("127.0.0.1", port)))
            made.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            busy[made.socket.fileno()] = made
            poll.register(made.socket, select.EPOLLIN)
            made.send(request)
        while busy:
            for number, _ in poll.poll(MOST_SECONDS):
                connection = busy[number]
                if not connection.answered():
                    continue
                now = time.perf_counter()
                latencies.append(now - connection.began)
                request_or_none = next(requests, None) if now < until else None
                if request_or_none is not None:
                    connection.send(request_or_none)
                else:
                    poll.unregister(number)
                    busy.pop(number).socket.close()
    finally:
        for connection in busy.values():
            connection.socket.close()
        poll.close()


def _first(requests: Iterator[bytes], count: int) -> Iterator[bytes]:
    for request, _ in zip(requests, range(count), strict=False):
        yield request

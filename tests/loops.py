"""The event loop of the tests: the one that serves, which connects to loopback alone."""

from typing import Any, Final

import uvloop
from pytest_socket import SocketConnectBlockedError

LOOPBACK: Final = ["127.0.0.1", "::1", "localhost"]


class LoopbackLoop(uvloop.Loop):
    """`pytest-socket` guards the sockets of Python; these connections are made without one."""

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, *args: Any, **options: Any
    ) -> Any:
        if options.get("sock") is None and host not in LOOPBACK:
            raise SocketConnectBlockedError(LOOPBACK, host)
        return await super().create_connection(protocol_factory, host, *args, **options)

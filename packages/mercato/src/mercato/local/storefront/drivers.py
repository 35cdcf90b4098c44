"""What makes the storefront buy: a command that is started for each purchase, or a person."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from mercato.local.storefront.proxy import FaultProxy
from mercato_tools.certify.suite import Skipped

MAX_OUTPUT: Final = 64 * 1024
"""Bytes of a command's output that are searched."""

MAX_MESSAGE: Final = 300
"""Characters of a command's output that are shown."""

POLL_SECONDS: Final = 0.02

LAST_OUTPUT_SECONDS: Final = 1.0
"""How long to wait for the last output, once the command's processes have ended."""

REASON: Final = "CHANGED_MIND"
"""Why the customer cancels an order."""

STACK_TRACE: Final = re.compile(
    rb"Traceback \(most recent call last\)|^\s+at .+:\d+|^panic: |^goroutine \d+|Unhandled|Segmentation fault",
    re.MULTILINE,
)
"""What programs print on an unexpected error."""


class PurchaseEnd(Struct, frozen=True):
    """How a purchase ended on the storefront's side. `crashed` is None when that is unknown."""

    crashed: bool | None
    message: str = ""


class Driver(Protocol):
    """Makes the storefront buy once."""

    is_one_storefront: bool
    """Whether one process makes all purchases, so that it could cache a catalog."""

    port: int | None
    """Where the service listens for all purchases; None for another free port each time."""

    concurrency: int
    """Purchases at a time."""

    async def buy(self, proxy: FaultProxy, store_id: str, situation: str, *, cancels: bool) -> PurchaseEnd:
        """Have an order placed, in a named store unless the id is empty, and cancelled if it `cancels`.

        Raises Skipped when nobody did.
        """


class CommandDriver:
    """Starts a command for each purchase, with MERCATO_URL, MERCATO_KEY and MERCATO_STORE_ID.

    MERCATO_CANCEL is set if the order is to be cancelled: to the reason.
    """

    is_one_storefront = False
    port: int | None = None
    concurrency = 6

    def __init__(self, command: str, *, seconds: float) -> None:
        self._command = command
        self._seconds = seconds

    async def buy(
        self,
        proxy: FaultProxy,
        store_id: str,
        situation: str,  # noqa: ARG002  # for people
        *,
        cancels: bool,
    ) -> PurchaseEnd:
        variables = {"MERCATO_URL": proxy.base, "MERCATO_KEY": proxy.key, "MERCATO_STORE_ID": store_id}
        if cancels:
            variables["MERCATO_CANCEL"] = REASON
        process = await asyncio.create_subprocess_shell(
            self._command,
            env=os.environ | variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        output = bytearray()
        reading = asyncio.create_task(_read(process, output))
        try:
            async with asyncio.timeout(self._seconds):
                # `wait` would also wait for the end of the output, which a storefront in the background holds open.
                while process.returncode is None:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
            code = process.returncode
        except TimeoutError:
            return PurchaseEnd(crashed=True, message=f"The command did not end within {self._seconds:g} s.")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.wait([reading], timeout=LAST_OUTPUT_SECONDS)
            reading.cancel()
        message = " ".join(output.decode("utf-8", "replace").split())[-MAX_MESSAGE:]
        if code not in {0, 1} or STACK_TRACE.search(output):
            return PurchaseEnd(crashed=True, message=f"The command ended with {code}: {message}")
        return PurchaseEnd(crashed=False, message=message)


async def _read(process: asyncio.subprocess.Process, output: bytearray) -> None:
    """Keep the end of what the command prints. All of it is read, so that the command can go on."""
    assert process.stdout is not None, "the output is piped"
    while chunk := await process.stdout.read(MAX_OUTPUT):
        output += chunk
        del output[:-MAX_OUTPUT]


class ManualDriver:
    """Asks a person, or a test that drives the storefront, for an order, and waits until no more requests come."""

    is_one_storefront = True
    concurrency = 1

    def __init__(
        self, port: int, say: Callable[[str], object], *, first_seconds: float, idle_seconds: float
    ) -> None:
        """`first_seconds` limit the wait for the first request; `idle_seconds` without one end a purchase."""
        self.port: int | None = port
        self.first_seconds = first_seconds
        self._say = say
        self._idle_seconds = idle_seconds
        self._is_abandoned = False
        self._is_introduced = False

    async def buy(
        self,
        proxy: FaultProxy,
        store_id: str,
        situation: str,
        *,
        cancels: bool,  # noqa: ARG002  # the situation says it to people
    ) -> PurchaseEnd:
        if self._is_abandoned:
            raise Skipped("Nobody placed an order the last time, so the certifier didn't wait again.")
        if not self._is_introduced:
            self._is_introduced = True
            self._say(f"The service is at {proxy.base}, its key is {proxy.key}")
        self._say(f"Place an order now: {situation}." + (f" The store is {store_id}." if store_id else ""))
        try:
            async with asyncio.timeout(self.first_seconds):
                await proxy.activity.wait()
        except TimeoutError:
            self._is_abandoned = True
            raise Skipped(f"Nobody placed an order within {self.first_seconds:g} s.") from None
        while proxy.activity.is_set() or proxy.in_progress:
            proxy.activity.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._idle_seconds):
                    await proxy.activity.wait()
        return PurchaseEnd(crashed=None)

"""Who makes the storefront buy: a command that is started for each purchase, or a person who is asked to."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from mercato.certify.model import Skipped
from mercato.certify.storefront.network import Network

MOST_OUTPUT: Final = 64 * 1024
"""Bytes of a command's output that are looked at."""

MOST_WORDS: Final = 300

LOOK_SECONDS: Final = 0.02

LAST_SECONDS: Final = 1.0
"""How long the last of its output is waited for, once all that it started is gone."""

TRACES: Final = re.compile(
    rb"Traceback \(most recent call last\)|^\s+at .+:\d+|^panic: |^goroutine \d+|Unhandled|Segmentation fault",
    re.MULTILINE,
)
"""What programs print when they did not expect what happened."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a purchase ended on the storefront's side. `crashed` is None when nobody can tell."""

    crashed: bool | None
    words: str = ""


class Driver(Protocol):
    """Makes the storefront buy once."""

    keeps: bool
    """Whether it is one storefront that makes all purchases, and so could keep a catalog."""

    port: int | None
    """Where the service has to listen for all purchases; None: anywhere, for each of them elsewhere."""

    at_once: int
    """Purchases at a time."""

    async def buy(self, network: Network, key: str, store_id: str, words: str) -> Ended:
        """Return how a purchase at the service ended. Raises Skipped when none was made."""


class CommandDriver:
    """Starts a command for each purchase, with MERCATO_URL, MERCATO_KEY and MERCATO_STORE_ID."""

    keeps = False
    port: int | None = None
    at_once = 6

    def __init__(self, command: str, *, seconds: float) -> None:
        self._command = command
        self._seconds = seconds

    async def buy(self, network: Network, key: str, store_id: str, words: str) -> Ended:  # noqa: ARG002  # for people
        """Start the command and wait for its end."""
        given = {"MERCATO_URL": network.base, "MERCATO_KEY": key, "MERCATO_STORE_ID": store_id}
        process = await asyncio.create_subprocess_shell(
            self._command,
            env=os.environ | given,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        kept = bytearray()
        reading = asyncio.create_task(_read(process, kept))
        try:
            async with asyncio.timeout(self._seconds):
                # Not until nobody holds its output: what it has left in the background may be the storefront itself.
                while process.returncode is None:  # noqa: ASYNC110  # `wait` waits for the output's end as well
                    await asyncio.sleep(LOOK_SECONDS)
            code = process.returncode
        except TimeoutError:
            return Ended(crashed=True, words=f"The command did not end within {self._seconds:g} s.")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.wait([reading], timeout=LAST_SECONDS)
            reading.cancel()
        output = bytes(kept)
        told = " ".join(output.decode("utf-8", "replace").split())[-MOST_WORDS:]
        if code < 0 or code not in {0, 1} or TRACES.search(output):
            return Ended(crashed=True, words=f"The command ended with {code}: {told}")
        return Ended(crashed=False, words=told)


async def _read(process: asyncio.subprocess.Process, kept: bytearray) -> None:
    """Keep what the command prints, its end if that is long: all of it is read, so that it can go on."""
    assert process.stdout is not None, "it was asked for"
    while chunk := await process.stdout.read(MOST_OUTPUT):
        kept += chunk
        del kept[:-MOST_OUTPUT]


class HandDriver:
    """Asks a person, or whatever drives the storefront, to place an order, and waits until nothing more comes."""

    keeps = True
    at_once = 1

    def __init__(self, port: int, say: Callable[[str], object], *, patience: float, quiet: float) -> None:
        self.port: int | None = port
        self._say = say
        self._patience = patience
        self._quiet = quiet
        self._is_alone = False
        self._is_told = False

    async def buy(self, network: Network, key: str, store_id: str, words: str) -> Ended:
        """Wait for the calls of a purchase."""
        if self._is_alone:
            raise Skipped("Nobody bought anything any more: it was not waited for again.")
        if not self._is_told:
            self._is_told = True
            self._say(f"The service is at {network.base}, its key is {key}")
        self._say(f"Place an order now: {words}." + (f" The store is {store_id}." if store_id else ""))
        try:
            await asyncio.wait_for(network.news.wait(), self._patience)
        except TimeoutError:
            self._is_alone = True
            raise Skipped(f"Nobody bought anything within {self._patience:g} s.") from None
        while network.news.is_set() or network.under_way:
            network.news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(network.news.wait(), self._quiet)
        return Ended(crashed=None)

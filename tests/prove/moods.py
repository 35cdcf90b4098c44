"""How partners misbehave: slow, broken, gone in the middle of an answer, before or after the work was done."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

_SLOW: Final = 0.12
_FAILS: Final = 0.05
_DROPS: Final = 0.05


class Dropped(Exception):  # noqa: N818  # an event, as `JobLost` is
    """The connection was closed without an answer."""


@dataclass(slots=True)
class Moods:
    """Chance decides how each call is treated, until `heal`."""

    chance: random.Random
    healed: bool = False
    _met: set[str] = field(default_factory=set)

    def heal(self) -> None:
        """Behave from now on."""
        self.healed = True

    async def suffer(self, request: web.Request) -> web.Response | None:
        """Wait, drop the connection (raises Dropped), return an error to be answered, or None to go on."""
        if self.healed:
            return None
        draw = self.chance.random()
        if draw < _SLOW:
            await asyncio.sleep(self.chance.uniform(0.1, 1.2))
        elif draw < _SLOW + _FAILS:
            return web.Response(status=self.chance.choice((500, 503, 429, 404)))
        elif draw < _SLOW + _FAILS + _DROPS:
            drop(request)
        else:
            await asyncio.sleep(self.chance.uniform(0, 0.05))
        return None

    async def suffer_once(self, request: web.Request, webhook_id: str) -> web.Response | None:
        """Do the same, but only at the first time that a webhook comes: a second failure waits half a minute."""
        if webhook_id in self._met:
            return None
        self._met.add(webhook_id)
        return await self.suffer(request)


def drop(request: web.Request) -> None:
    """Close the connection without an answer. Raises Dropped, always."""
    if request.transport is not None:
        request.transport.abort()
    raise Dropped

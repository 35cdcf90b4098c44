"""The screens of the console by their paths, and which of them a session sees."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from mercato.console.screen import NAVIGATION, Screen, audiences_of
from mercato.console.screens import (
    account,
    catalogs,
    certification,
    deliveries,
    discovery,
    keys,
    menus,
    orders,
    overview,
    playground,
    requests,
    stores,
)
from mercato.console.screens.operators import audit, erasure, health, jobs, partners, search
from mercato.features.sign_in.model import Session
from mercato.platform import errors
from mercato_contract.wire import parse_uuid

SCREENS: Final[tuple[Screen, ...]] = (
    *overview.screens,
    *health.screens,
    *orders.screens,
    *stores.screens,
    *menus.screens,
    *partners.screens,
    *catalogs.screens,
    *playground.screens,
    *discovery.screens,
    *deliveries.screens,
    *jobs.screens,
    *requests.screens,
    *search.screens,
    *keys.screens,
    *audit.screens,
    *erasure.screens,
    *certification.screens,
    *account.screens,
)

_MISSING: Final = "This page does not exist. Use the navigation to find others."


class _Node:
    __slots__ = ("children", "parameter", "screens")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.parameter: tuple[str, _Node] | None = None
        self.screens: list[Screen] = []


def _tree() -> _Node:
    root = _Node()
    for screen in SCREENS:
        node = root
        for segment in screen.path.split("/"):
            if segment.startswith("{"):
                node.parameter = node.parameter or (segment[1:-1], _Node())
                assert node.parameter[0] == segment[1:-1], "one name for an id at one place"
                node = node.parameter[1]
            else:
                node = node.children.setdefault(segment, _Node())
        node.screens.append(screen)
    return root


_ROOT: Final = _tree()


def find_screen(session: Session, method: str, path: str) -> tuple[Screen, Mapping[str, UUID]]:
    """Return the screen of a path that the session may see, and the ids in it. Raises NotFound, MethodNotAllowed."""
    node, ids = _ROOT, {}
    for segment in path.split("/"):
        child = node.children.get(segment)
        if child is None:
            read = parse_uuid(segment)
            if node.parameter is None or read is None:
                raise errors.NotFound(_MISSING)
            name, child = node.parameter
            ids[name] = read
        node = child
    seen = [screen for screen in node.screens if _may_see(session, screen)]
    if not seen:
        raise errors.NotFound(_MISSING)
    wanted = [one for one in seen if (one.act if method == "POST" else one.show or one.ask) is not None]
    if not wanted:
        raise errors.MethodNotAllowed(method, ["GET" if method == "POST" else "POST"])
    return wanted[0], ids


def _may_see(session: Session, screen: Screen) -> bool:
    if screen.whole_account and session.grant.store_id is not None:
        return False
    return bool(screen.audiences & audiences_of(session))


def navigation_of(session: Session) -> list[tuple[str, str]]:
    """Return the names and paths of what the session can open."""
    there = {screen.path for screen in SCREENS if screen.show is not None and _may_see(session, screen)}
    mine = audiences_of(session)
    return [
        (name, f"/console/{name.lower()}")
        for name, audiences in NAVIGATION
        if audiences & mine and name.lower() in there
    ]

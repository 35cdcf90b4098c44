"""`mercato console`: links that sign a browser in, and the end of sessions."""

from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from mercato.cli import UnusableError
from mercato.cli.options import DataDir, Json, group
from mercato.cli.output import note, print_json, say
from mercato.cli.session import find_partner_id, opened
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.platform import clock
from mercato.platform.telemetry.context import current_context
from mercato.platform.texts import count_of
from mercato.settings import Settings
from mercato_contract.wire import Instant, Wire, redacted, rfc3339

console = group("console", "The console: sign in, end sessions.")


@redacted("url")
class Link(Wire):
    """A one-time link."""

    url: str
    expires_at: Instant
    partner_id: UUID | None
    read_only: bool


class Ended(Wire):
    """How many sessions ended."""

    partner_id: UUID | None
    ended: int


@console.command
async def link(
    *,
    operator: bool = False,
    partner: Annotated[
        str | None, Parameter(help="The id or name of the partner whose account it opens.")
    ] = None,
    read_only: bool = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Print a link that signs one browser in, once, within 15 minutes.

    Its address begins with MERCATO_PUBLIC_URL, or else with this machine's.

    Args:
        operator: Into the operator's account, which sees all partners.
        read_only: The session changes nothing.

    """
    if operator == (partner is not None):
        raise UnusableError("Say whose account it opens: --operator, or --partner NAME.")
    async with opened(data_dir) as core, core.db.write() as tx:
        context = current_context()
        assert context is not None, "a command says who typed it"
        partner_id = await find_partner_id(tx, partner)
        grant = Grant(partner_id=partner_id, created_by=context.actor, read_only=read_only)
        made = await sessions.create_link(tx, grant, now=clock.now())
    url = f"{_base_url(core.settings)}/console/links/{made.token}"
    if json:
        expires_at = rfc3339(made.expires_at)
        print_json(Link(url=url, expires_at=expires_at, partner_id=partner_id, read_only=read_only))
        return
    say(url)
    note("Open it within 15 minutes. It signs in one browser, once.")


@console.command
async def end_sessions(
    *,
    operator: bool = False,
    partner: Annotated[
        str | None, Parameter(help="The id or name of the partner whose sessions end.")
    ] = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """End all sessions of an account at once, and withdraw its links that weren't opened yet.

    Keys and passkeys stay valid, and can begin new sessions.

    Args:
        operator: Those of the operators' account.

    """
    if operator == (partner is not None):
        raise UnusableError("Say whose sessions end: --operator, or --partner NAME.")
    async with opened(data_dir) as core, core.db.write() as tx:
        partner_id = await find_partner_id(tx, partner)
        ended = await sessions.end_all_sessions(tx, partner_id, now=clock.now())
    if json:
        print_json(Ended(partner_id=partner_id, ended=ended))
        return
    note(f"{count_of(ended, 'session')} ended.")


def _base_url(settings: Settings) -> str:
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104  # every address
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"

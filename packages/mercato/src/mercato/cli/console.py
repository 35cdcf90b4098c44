"""`mercato console`: links that sign a browser in, the people of an account, and the end of sessions."""

from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from mercato.cli.address import find_address, local_url
from mercato.cli.output import print_table
from mercato.cli.session import find_partner_id, opened
from mercato.features.sign_in import people, sessions
from mercato.features.sign_in.model import Grant
from mercato.features.sign_in.passkeys import site_url
from mercato.features.sign_in.roles import Role
from mercato.platform.telemetry.context import current_context
from mercato.settings import Settings
from mercato_contract import clock
from mercato_contract.texts import count_of
from mercato_contract.wire import Instant, Wire, instant, redacted, rfc3339
from mercato_tools.cli import UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json, say

console = group("console", "The console: sign in, invite people, end sessions.")


AccountPartner = Annotated[str | None, Parameter(help="The id or name of the partner whose account it is.")]


@redacted("url")
class Link(Wire):
    """A one-time link."""

    url: str
    expires_at: Instant
    partner_id: UUID | None
    read_only: bool


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

    Its address begins with MERCATO_PUBLIC_URL, or else with that of the server on the data directory, or MERCATO_PORT.

    Args:
        operator: Into the operator's account, which sees all partners.
        read_only: The session changes nothing.

    """
    _check_account(operator=operator, partner=partner)
    async with opened(data_dir) as core, core.db.write() as tx:
        context = current_context()
        assert context is not None, "a command says who typed it"
        partner_id = await find_partner_id(tx, partner)
        grant = Grant(partner_id=partner_id, created_by=context.actor, read_only=read_only)
        made = await sessions.create_link(tx, grant, now=clock.now())
    base_url = _base_url(core.settings)
    url = f"{base_url}/console/links/{made.token}"
    if json:
        expires_at = rfc3339(made.expires_at)
        print_json(Link(url=url, expires_at=expires_at, partner_id=partner_id, read_only=read_only))
        return
    say(url)
    note("Open it within 15 minutes. It signs in one browser, once.")
    _note_address(core.settings, base_url)


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
    _check_account(operator=operator, partner=partner)
    async with opened(data_dir) as core, core.db.write() as tx:
        partner_id = await find_partner_id(tx, partner)
        ended = await sessions.end_all_sessions(tx, partner_id, now=clock.now())
    if json:
        print_json({"partnerId": partner_id, "ended": ended})
        return
    note(f"{count_of(ended, 'session')} ended.")


@redacted("url")
class Invitation(Wire):
    """An invitation of a person."""

    url: str
    expires_at: Instant
    partner_id: UUID | None
    name: str
    role: Role


@console.command
async def invite(
    name: str,
    /,
    *,
    role: Role,
    operator: bool = False,
    partner: AccountPartner = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Invite somebody: print a link with which they add a passkey, once, within 3 days.

    Passkeys belong to the host name of MERCATO_PUBLIC_URL, or without it to localhost on this machine.

    Args:
        name: The person's name, as the audit trail says it.
        role: manager, support or readOnly of a partner; admin or support of operators.
        operator: To the operators' account.

    """
    _check_account(operator=operator, partner=partner)
    async with opened(data_dir) as core, core.db.write() as tx:
        context = current_context()
        assert context is not None, "a command says who typed it"
        partner_id = await find_partner_id(tx, partner)
        made = await people.invite(
            tx, partner_id, name=name, role=role, created_by=context.actor, now=clock.now()
        )
    base_url = site_url(_base_url(core.settings))
    url = f"{base_url}/console/links/{made.token}"
    if json:
        expires_at = rfc3339(made.expires_at)
        invited = Invitation(
            url=url, expires_at=expires_at, partner_id=partner_id, name=name.strip(), role=role
        )
        print_json(invited)
        return
    say(url)
    note("It is good once, within 3 days. Whoever opens it first becomes this person.")
    _note_address(core.settings, base_url)


@console.command(name="people")
async def list_people(
    *,
    operator: bool = False,
    partner: AccountPartner = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the people who sign in to an account with their own passkeys.

    Args:
        operator: Those of the operators' account.

    """
    _check_account(operator=operator, partner=partner)
    async with opened(data_dir) as core, core.db.read() as tx:
        partner_id = await find_partner_id(tx, partner)
        found = await people.list_people(tx, partner_id)
    if json:
        entries = [
            {
                "personId": person.person.id,
                "name": person.person.name,
                "role": person.person.role,
                "joinedAt": instant(person.joined_at),
                "usedAt": instant(person.used_at),
            }
            for person in found
        ]
        print_json({"partnerId": partner_id, "people": entries})
        return
    rows = [
        (person.person.name, person.person.role.words, person.joined_at, person.used_at) for person in found
    ]
    print_table(("Name", "Role", "Joined", "Signed in"), rows, empty="Nobody was invited to this account.")


@console.command
async def remove_person(
    name: str, /, *, operator: bool = False, partner: AccountPartner = None, data_dir: DataDir = None
) -> None:
    """Remove somebody: their passkeys are deleted, and their sessions end at once.

    Args:
        name: The person's name.
        operator: From the operators' account.

    """
    _check_account(operator=operator, partner=partner)
    async with opened(data_dir) as core, core.db.write() as tx:
        partner_id = await find_partner_id(tx, partner)
        person = await people.find_named(tx, partner_id, name)
        if person is None:
            raise UnusableError(f"This account has no person {name!r}. List them: mercato console people")
        await people.remove(tx, person)
    note(f"{person.name} was removed.")


def _check_account(*, operator: bool, partner: str | None) -> None:
    """Raise UnusableError unless exactly one account is named."""
    if operator == (partner is not None):
        raise UnusableError("Say which account: --operator, or --partner NAME.")


def _note_address(settings: Settings, base_url: str) -> None:
    """Say how to get to a server whose address isn't known here: none runs on this data directory."""
    if settings.public_url is None and find_address(settings.data_dir) is None:
        note(
            f"No server is known to run on {settings.data_dir}. One with another address than {base_url} needs that "
            "in its place, or MERCATO_PUBLIC_URL."
        )


def _base_url(settings: Settings) -> str:
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    return find_address(settings.data_dir) or local_url(settings.host, settings.port)

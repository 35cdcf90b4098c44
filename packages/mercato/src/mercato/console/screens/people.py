"""People: who signs in to the account with passkeys of their own, and with which role."""

from typing import Annotated, Final

from msgspec import Meta

from mercato.console.actors import name_actors
from mercato.console.passkeys import site_of
from mercato.console.screen import EVERYBODY, Done, Page, Question, Screens, Secret, Visit
from mercato.features.sign_in import people
from mercato.features.sign_in.model import NewLink, Person
from mercato.features.sign_in.passkeys import site_url
from mercato.features.sign_in.people import MAX_NAME
from mercato.features.sign_in.roles import Permission, Role
from mercato.platform.errors import Forbidden, NotFound, Problem
from mercato_contract.wire import Wire

screens: Final = Screens(EVERYBODY, whole_account=True)

PEOPLE: Final = "/console/people"

_PARTNERS: Final = {
    Role.MANAGER: "Everything, but to create or roll keys and to rotate the secret: those stay valid when somebody "
    "leaves.",
    Role.SUPPORT: "Finds orders and sees their customers; cancels orders, sends webhooks again, pauses stores and "
    "marks items sold out. Sees no keys, secrets or people.",
    Role.READ_ONLY: "Sees everything but customers, and changes nothing.",
}
"""What the table of roles allows, in the words of a partner's page."""

_OPERATORS: Final = {
    Role.ADMIN: "Everything, but to see who ordered.",
    Role.SUPPORT: "Finds orders and sees who ordered, with a masked phone number until Show is pressed; cancels "
    "orders, sends webhooks again, pauses stores and revives jobs. Neither erases nor suspends, and sees no keys.",
}


class InvitationForm(Wire):
    """Who is invited."""

    name: Annotated[str, Meta(max_length=MAX_NAME)]
    role: Role


@screens.get("people", needs=Permission.SEE_PEOPLE)
async def show_people(visit: Visit) -> Page:
    partner_id = visit.session.grant.partner_id
    async with visit.app.db.read() as tx:
        found = await people.list_people(tx, partner_id)
        actors = await name_actors(tx, {one.created_by for one in found})
    values = {
        "people": found,
        "actors": actors,
        "roles": people.roles_of(partner_id),
        "includes": _OPERATORS if partner_id is None else _PARTNERS,
        "refusal": _refusal(visit),
    }
    return Page("people.html", "People", values)


@screens.post("people", needs=Permission.CHANGE_PEOPLE)
async def invite_person(visit: Visit) -> Page:
    form = visit.fields(InvitationForm)
    _check_inviting(visit)
    session = visit.session
    async with visit.app.db.write() as tx:
        link = await people.invite(
            tx,
            session.grant.partner_id,
            name=form.name,
            role=form.role,
            created_by=session.grant.created_by,
            key_id=session.grant.key_id if session.person is None else session.person.key_id,
            now=visit.app.clock(),
            new_id=visit.app.new_id,
        )
    return _shown(visit, form.name.strip(), link)


@screens.post("people/{person}/invite", needs=Permission.CHANGE_PEOPLE)
async def invite_again(visit: Visit) -> Page:
    person = await _person(visit)
    _check_inviting(visit)
    async with visit.app.db.write() as tx:
        link = await people.invite_again(tx, person, now=visit.app.clock())
    return _shown(visit, person.name, link)


async def _ask_to_remove(visit: Visit) -> Question:
    person = await _person(visit)
    own = " You are signed out." if person.id == visit.session.grant.person_id else ""
    return Question(
        f"Remove {person.name}?",
        "Their passkeys are deleted, and their sessions end at once."
        f"{own} What they did stays in the audit trail, under their name.",
        back=PEOPLE,
    )


@screens.post("people/{person}/remove", needs=Permission.CHANGE_PEOPLE, ask=_ask_to_remove)
async def remove_person(visit: Visit) -> Done:
    person = await _person(visit)
    _check(visit)
    async with visit.app.db.write() as tx:
        if not await people.remove(tx, person):
            raise _missing()
    return Done(f"{person.name} was removed.", to=PEOPLE)


def _refusal(visit: Visit) -> str | None:
    """Return why nobody can be invited here."""
    try:
        _check_inviting(visit)
    except Problem as problem:
        return problem.detail
    return None


def _check(visit: Visit) -> None:
    """Raise Forbidden for a session that shows one side of its account: people see both."""
    if visit.session.only_surface is not None:
        raise Forbidden(
            f"This session was begun by a {visit.session.only_surface} key, and people see both sides of the account. "
            "Ask the operator of this service for a link of the whole account, or sign in as a manager."
        )


def _check_inviting(visit: Visit) -> None:
    """Raise Forbidden where nobody could accept an invitation, too."""
    _check(visit)
    site_of(visit.app, visit.head)


async def _person(visit: Visit) -> Person:
    """Return the person of the path. Raises NotFound, also for another account's."""
    async with visit.app.db.read() as tx:
        person = await people.find_person(tx, visit.session.grant.partner_id, visit.ids["person"])
    if person is None:
        raise _missing()
    return person


def _missing() -> NotFound:
    return NotFound("This account has no such person. They may have been removed already.")


def _shown(visit: Visit, name: str, link: NewLink) -> Page:
    until = f"{link.expires_at:%Y-%m-%d %H:%M} UTC"
    note = f"It is good once, until {until}. Send it to {name} alone: whoever opens it first becomes this person."
    url = f"{site_url(visit.head.base_url)}/console/links/{link.token}"
    secret = Secret(f"Invitation of {name}", url, (note,), ("People", PEOPLE))
    return Page("shown_once.html", "Invitation", {"secret": secret})

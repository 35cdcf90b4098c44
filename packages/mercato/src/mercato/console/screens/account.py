"""Account and People: who is signed in and where, who may sign in, and the passkeys of the signed-in person."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from mercato.console.filters import name_actors
from mercato.console.screen import (
    EVERYBODY,
    MERCHANTS,
    OPERATORS,
    PARTNERS,
    STOREFRONTS,
    Done,
    Page,
    Question,
    Screens,
    Secret,
    Visit,
    audiences_of,
    show_once,
)
from mercato.console.session import with_role
from mercato.console.sign_in import NewPasskey, challenges_of, site_of
from mercato.console.times import UTC, say, timezones
from mercato.features.sign_in import passkeys, people, sessions
from mercato.features.sign_in.model import NewLink, Person, is_signed_on
from mercato.features.sign_in.passkeys import site_url
from mercato.features.sign_in.people import MAX_NAME
from mercato.features.sign_in.roles import ALLOWED, Permission, Role
from mercato.platform import errors
from mercato.platform.errors import Forbidden, NotFound
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.wire import Wire

screens: Final = Screens(EVERYBODY)

ACCOUNT: Final = "/console/account"


@screens.get("account")
async def show_account(visit: Visit) -> Page:
    async with visit.app.db.read() as tx:
        found = await sessions.list_sessions(tx, visit.session, now=visit.app.clock())
        keys = await passkeys.list_all(tx, visit.session.person) if _has_passkeys(visit) else None
    return Page(
        "account.html",
        "Account",
        {
            "session": visit.session,
            "sessions": [with_role(visit.app, session) for session in found],
            "passkeys": keys,
            "zones": timezones()[1:],
        },
    )


def _has_passkeys(visit: Visit) -> bool:
    """Return whether this visit can add passkeys: persons have their own, operators those of their account.

    A visit with the role Support from single sign-on sees nothing of others.
    """
    if visit.session.person is not None:
        return True
    return visit.is_operator and visit.may(Permission.SEE_PEOPLE)


class TimezoneForm(Wire):
    """The time zone; none is UTC."""

    timezone: str | None = None


@screens.post("account/timezone", needs=Permission.SEE)
async def set_timezone(visit: Visit) -> Done:
    chosen = visit.fields(TimezoneForm).timezone or UTC
    if chosen not in timezones():
        raise ValidationFailed.at(None, "No time zone has this name. Choose one of the list.")
    return Done(f"Times are shown in {chosen} now.", to=ACCOUNT, timezone=chosen)


@screens.post("account/sessions/{session}/end", needs=Permission.SIGN_IN)
async def end_session(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        ended = await sessions.end_session(tx, visit.session, visit.ids["session"])
    if not ended:
        raise errors.NotFound("This account has no such session. It may have ended already.")
    return Done("The session has ended.", to=ACCOUNT)


async def _ask_to_end_all(visit: Visit) -> Question:
    if not visit.may(Permission.SEE_PEOPLE):
        return Question(
            "End your sessions?",
            "You are signed out everywhere at once, also here. Your passkeys stay valid: you can sign in again.",
            back=ACCOUNT,
        )
    its = "this store" if visit.store_id is not None else "this account"
    return Question(
        "End all sessions?",
        f"Everybody who is signed in to {its} is signed out at once, including you, and links that weren't opened yet "
        "no longer sign in. Keys and passkeys stay valid: whoever has one can sign in again.",
        back=ACCOUNT,
    )


@screens.post("account/sessions/end", needs=Permission.SIGN_IN, ask=_ask_to_end_all)
async def end_all_sessions(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        await sessions.end_all_sessions(
            tx, visit.session.grant.partner_id, seen_by=visit.session, now=visit.app.clock()
        )
    return Done("All sessions have ended.", to="/console")


def _adding(visit: Visit) -> str:
    """Return what a challenge for a new passkey is bound to. Raises NotFound, Forbidden.

    A passkey outlives the session, so it can't be added after single sign-on: the provider may withdraw access.
    """
    if not _has_passkeys(visit):
        raise errors.NotFound(
            "A link of an account adds no passkey. The page People invites somebody who has their own."
        )
    if is_signed_on(visit.session.grant):
        raise errors.Forbidden(
            "You signed in with single sign-on. A passkey would still sign you in after your access there has ended. "
            "To add one, sign in with a link of mercato console link --operator."
        )
    return f"add {visit.session.id}"


@screens.get("account/passkeys/new", needs=Permission.SIGN_IN)
async def new_passkey(visit: Visit) -> Page:
    purpose, site = _adding(visit), site_of(visit.app, visit.head)
    await passkeys.load()
    async with visit.app.db.read() as tx:
        existing = await passkeys.list_credential_ids(tx, visit.session.person)
    challenge = challenges_of(visit.app).new(purpose, site, now=visit.app.clock())
    options = passkeys.creation_options(
        site, challenge, existing, None if visit.session.person is None else visit.session.person.name
    )
    return Page("passkey_new.html", "Add a passkey", {"options": options})


@screens.post("account/passkeys", needs=Permission.SIGN_IN)
async def add_passkey(visit: Visit) -> Done:
    form, purpose = visit.fields(NewPasskey), _adding(visit)
    await passkeys.load()
    app, now, site = visit.app, visit.app.clock(), site_of(visit.app, visit.head)
    made = passkeys.verify_new(challenges_of(app), site, form.credential, purpose=purpose, now=now)
    async with app.db.write() as tx:
        await passkeys.add(
            tx,
            made,
            name=form.name.strip(),
            created_by=visit.session.grant.created_by,
            person=visit.session.person,
            now=now,
        )
    return Done("The passkey was added. You can now sign in with it.", to=ACCOUNT)


async def _ask_to_remove_passkey(visit: Visit) -> Question:
    return Question(
        "Remove the passkey?",
        "It can no longer sign in, and its sessions end at once, including yours if you signed in with it."
        if visit.session.person is None
        else "It can no longer sign in. You are signed out everywhere, and need another passkey to sign in again.",
        back=ACCOUNT,
    )


@screens.post("account/passkeys/{passkey}/remove", needs=Permission.SIGN_IN, ask=_ask_to_remove_passkey)
async def remove_passkey(visit: Visit) -> Done:
    removed = False
    if _has_passkeys(visit):
        async with visit.app.db.write() as tx:
            removed = await passkeys.remove(tx, visit.ids["passkey"], visit.session.person)
    if not removed:
        raise errors.NotFound("This passkey was not found. It may have been removed already.")
    return Done("The passkey was removed.", to=ACCOUNT)


# --- people ---------------------------------------------------------------------------------------

people_screens: Final = Screens(EVERYBODY, whole_account=True)

PEOPLE: Final = "/console/people"

POWERS: Final = (
    (Permission.SEE, EVERYBODY, "See orders, stores, catalogs, webhooks and refused requests"),
    (Permission.FIND_CUSTOMERS, EVERYBODY, "Find orders by a phone number or an e-mail address"),
    (
        Permission.SEE_CUSTOMERS,
        PARTNERS,
        "See the customer and the delivery address, and find orders by the name",
    ),
    (
        Permission.SEE_CUSTOMERS,
        OPERATORS,
        "See who ordered, masked until Show is pressed, and find orders by the name",
    ),
    (Permission.CHANGE_ORDERS, MERCHANTS, "Cancel and adjust orders, and send webhooks again"),
    (Permission.CHANGE_ORDERS, EVERYBODY, "Cancel orders, and send webhooks again"),
    (Permission.CHANGE_STORES, MERCHANTS, "Pause stores, and mark items sold out"),
    (Permission.CHANGE_STORES, OPERATORS, "Pause stores"),
    (
        Permission.MANAGE_STORES,
        MERCHANTS,
        "Register stores, and change hours, how orders are handled, taxes and fees",
    ),
    (Permission.REVIVE_JOBS, OPERATORS, "Revive jobs"),
    (Permission.CHANGE_CATALOGS, MERCHANTS, "Activate catalogs, and cancel what is planned"),
    (Permission.PLACE_ORDERS, STOREFRONTS, "Validate and place orders in the playground"),
    (Permission.CERTIFY, MERCHANTS, "Upload and delete certification reports"),
    (Permission.SEE_REPORTS, EVERYBODY, "See reports of orders, and download them"),
    (Permission.SEE_KEYS, PARTNERS, "See which keys and secrets there are, and where webhooks go"),
    (Permission.SEE_KEYS, OPERATORS, "See the keys of partners, and where operators' events go"),
    (Permission.CHANGE_KEYS, PARTNERS, "Revoke keys, and change where webhooks go"),
    (Permission.CHANGE_KEYS, OPERATORS, "Revoke keys of partners, and change where operators' events go"),
    (Permission.MAKE_KEYS, OPERATORS, "Add endpoints for operators' events, and rotate their secrets"),
    (
        Permission.MAKE_KEYS,
        PARTNERS,
        "Create and roll keys, and rotate secrets: those stay valid when somebody leaves",
    ),
    (Permission.SEE_PEOPLE, EVERYBODY, "See the people of the account"),
    (Permission.CHANGE_PEOPLE, EVERYBODY, "Invite and remove people"),
    (Permission.CHANGE_PARTNERS, OPERATORS, "Create, change, suspend and delete partners"),
    (Permission.ERASE, OPERATORS, "Erase customers"),
    (Permission.SIGN_IN, EVERYBODY, "Add passkeys of their own, and end sessions"),
)
"""What a permission lets people do, by whose account it is: the first line of a permission that fits an account."""


def _powers(visit: Visit, roles: Sequence[Role]) -> list[tuple[str, list[bool]]]:
    """Return what there is to do in the account, each with whether the roles include it."""
    words: dict[Permission, str] = {}
    for permission, audiences, text in POWERS:
        if audiences & audiences_of(visit.session):
            words.setdefault(permission, text)
    return [(text, [permission in ALLOWED[role] for role in roles]) for permission, text in words.items()]


class InvitationForm(Wire):
    """Who is invited."""

    name: Annotated[str, Meta(max_length=MAX_NAME)]
    role: Role


def _inviter(actor: str, name: str) -> str:
    """Return who invited a person. For a command that is the operator: its user doesn't belong to the account."""
    return "the operator" if actor.removeprefix("console:").startswith("cli:") else name


@people_screens.get("people", needs=Permission.SEE_PEOPLE)
async def show_people(visit: Visit) -> Page:
    partner_id = visit.session.grant.partner_id
    async with visit.app.db.read() as tx:
        found = await people.list_people(tx, partner_id)
        actors = await name_actors(tx, {person.created_by for person in found})
    roles = people.roles_of(partner_id)
    values = {
        "people": found,
        "actors": {actor: _inviter(actor, name) for actor, name in actors.items()},
        "roles": roles,
        "powers": _powers(visit, roles),
        "refusal": _refusal(visit),
    }
    return Page("people.html", "People", values)


@people_screens.post("people", needs=Permission.CHANGE_PEOPLE)
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


@people_screens.post("people/{person}/invite", needs=Permission.CHANGE_PEOPLE)
async def invite_again(visit: Visit) -> Page:
    person = await _person(visit)
    _check_inviting(visit)
    async with visit.app.db.write() as tx:
        link = await people.invite_again(tx, person, now=visit.app.clock())
    return _shown(visit, person.name, link)


async def _ask_to_remove_person(visit: Visit) -> Question:
    person = await _person(visit)
    own = " You are signed out." if person.id == visit.session.grant.person_id else ""
    return Question(
        f"Remove {person.name}?",
        "Their passkeys are deleted, and their sessions end at once."
        f"{own} What they did stays in the audit trail, under their name.",
        back=PEOPLE,
    )


@people_screens.post("people/{person}/remove", needs=Permission.CHANGE_PEOPLE, ask=_ask_to_remove_person)
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
    until = say(link.expires_at, visit.timezone)
    note = f"It is good once, until {until}. Send it to {name} alone: whoever opens it first becomes this person."
    url = f"{site_url(visit.head.base_url)}/console/links/{link.token}"
    secret = Secret(f"Invitation of {name}", url, (note,), ("People", PEOPLE))
    return show_once("Invitation made", secret)

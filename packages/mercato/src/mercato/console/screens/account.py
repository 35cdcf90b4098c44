"""Account: who is signed in and where, and the passkeys of who looks."""

from typing import Annotated, Final

from msgspec import Meta

from mercato.console.passkeys import challenges_of, site_of
from mercato.console.screen import EVERYBODY, Done, Page, Question, Screens, Visit
from mercato.console.times import UTC, timezones
from mercato.features.sign_in import passkeys, sessions
from mercato.features.sign_in.model import is_signed_on
from mercato.features.sign_in.roles import Permission
from mercato.platform import errors
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
        {"session": visit.session, "sessions": found, "passkeys": keys, "zones": timezones()[1:]},
    )


def _has_passkeys(visit: Visit) -> bool:
    """Return whether who is signed in can have passkeys: a person their own, and operators those of their account."""
    return visit.is_operator or visit.session.person is not None


class TimezoneForm(Wire):
    """The time zone; none is UTC."""

    timezone: str | None = None


@screens.post("account/timezone", needs=Permission.SEE)
async def set_timezone(visit: Visit) -> Done:
    chosen = visit.fields(TimezoneForm).timezone or UTC
    if chosen not in timezones():
        raise errors.ValidationFailed.at(None, "No time zone has this name. Choose one of the list.")
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


class NewPasskey(Wire):
    """The form of a new passkey; `credential` is what the browser made, as JSON."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    credential: Annotated[str, Meta(max_length=16_384)]


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


async def _ask_to_remove(visit: Visit) -> Question:
    return Question(
        "Remove the passkey?",
        "It can no longer sign in, and its sessions end at once, including yours if you signed in with it."
        if visit.session.person is None
        else "It can no longer sign in. You are signed out everywhere, and need another passkey to sign in again.",
        back=ACCOUNT,
    )


@screens.post("account/passkeys/{passkey}/remove", needs=Permission.SIGN_IN, ask=_ask_to_remove)
async def remove_passkey(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        removed = await passkeys.remove(tx, visit.ids["passkey"], visit.session.person)
    if not removed:
        raise errors.NotFound("This passkey was not found. It may have been removed already.")
    return Done("The passkey was removed.", to=ACCOUNT)

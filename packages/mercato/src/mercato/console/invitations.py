"""One-time links, and invitations, which have such addresses, too: the invited add a passkey and is signed in."""

from typing import Annotated

from msgspec import Meta

from mercato.console import sign_in
from mercato.console.cookies import Cookies
from mercato.console.forms import MAX_FORM, decode_form
from mercato.console.passkeys import challenges_of, site_of
from mercato.console.rendering import render, render_refusal
from mercato.features.sign_in import passkeys, people, sessions
from mercato.features.sign_in.model import LinkRefused
from mercato.features.sign_in.people import Invitation
from mercato.http.operations import Answer, Call, ReadBody
from mercato.platform.errors import Problem
from mercato.platform.telemetry.context import set_context
from mercato_contract.wire import Wire


class Joining(Wire):
    """The form of an invitation; `credential` is what the browser made, as JSON."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    credential: Annotated[str, Meta(max_length=16_384)]


async def open_link(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Open a link, or an invitation: which of them an address is, its random part tells alone."""
    try:
        # Read first: made-up links must neither wait for the database's write lock nor hold it.
        async with call.app.db.read() as tx:
            invitation = await people.find_invitation(tx, call.texts["path"], now=call.app.clock())
        if invitation is None:
            return await sign_in.open_link(call, cookies)
        if call.head.method != "POST":
            return await _ask(call, invitation)
        return await _join(call, cookies, invitation)
    except LinkRefused as refused:
        return sign_in.refuse_link(refused)
    except Problem as problem:
        return render_refusal(problem, call.head.request_id)


async def _ask(call: Call[ReadBody, None], invitation: Invitation) -> Answer[str]:
    """Return the page that asks for a passkey. To look at it uses nothing up."""
    await passkeys.load()
    site, person = site_of(call.app, call.head), invitation.person
    challenge = challenges_of(call.app).new(_purpose(invitation), site, now=call.app.clock())
    return render(
        "invitation.html",
        title="Accept the invitation",
        console=None,
        person=person,
        account=invitation.account,
        options=passkeys.creation_options(site, challenge, (), person.name),
    )


async def _join(call: Call[ReadBody, None], cookies: Cookies, invitation: Invitation) -> Answer[str]:
    """Keep the passkey, and sign its person in."""
    app, now, person = call.app, call.app.clock(), invitation.person
    form = decode_form(Joining, await call.body(MAX_FORM))
    await passkeys.load()
    set_context(sign_in.work_context(call, "console.acceptInvitation", person.grant))
    challenges, site, purpose = challenges_of(app), site_of(app, call.head), _purpose(invitation)
    made = passkeys.verify_new(challenges, site, form.credential, purpose=purpose, now=now)
    async with app.db.write() as tx:
        await people.accept(tx, call.texts["path"], now=now)
        await passkeys.add(tx, made, name=form.name.strip(), created_by=person.actor, person=person, now=now)
        await sign_in.end_previous(cookies, tx, now=now)
        token = await sessions.begin(tx, person.grant, now=now)
    return sign_in.signed_in(cookies, token)


def _purpose(invitation: Invitation) -> str:
    """Return what a challenge of the invitation is bound to."""
    return f"join {invitation.person.id}"

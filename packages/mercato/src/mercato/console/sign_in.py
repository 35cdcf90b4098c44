"""Sign-in: the page that says how, and one-time links."""

from datetime import datetime

from mercato.console.cookies import MAX_AGE, MESSAGE, MESSAGE_SECONDS, SESSION, Cookies
from mercato.console.rendering import render
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant, LinkRefused
from mercato.http.operations import Answer, Call, ReadBody
from mercato.platform.db.engine import Write
from mercato.platform.telemetry.context import WorkContext, set_context


async def ask_for_link(call: Call[ReadBody, None], cookies: Cookies, *, status: int = 401) -> Answer[str]:
    """Return the page that says how to get a link, in place of what needs a session."""
    return render(
        "sign_in.html",
        status=status,
        title="Sign in",
        console=None,
        had_session=cookies.read(SESSION) is not None,
        base_url=call.head.base_url,
        has_sign_on=call.app.sign_on is not None,
    )


async def welcome(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Return the same page where nothing was asked for that needs a session."""
    return await ask_for_link(call, cookies, status=200)


async def open_link(call: Call[ReadBody, None], cookies: Cookies) -> Answer[str]:
    """Ask before a link is used, so that what only looks at it uses nothing up; sign in on the form that is sent."""
    app, now, token = call.app, call.app.clock(), call.texts["path"]
    try:
        # Read first: made-up links must neither wait for the database's write lock nor hold it.
        async with app.db.read() as tx:
            grant = await sessions.get_link(tx, token, now=now)
        if call.head.method != "POST":
            return render("continue.html", title="Continue to the console", console=None, grant=grant)
        set_context(work_context(call, "console.signIn", grant))
        async with app.db.write() as writing:
            await end_previous(cookies, writing, now=now)
            made = await sessions.sign_in(writing, token, now=now)
    except LinkRefused as refused:
        return refuse_link(refused)
    return signed_in(cookies, made)


def refuse_link(refused: LinkRefused) -> Answer[str]:
    """Return the page that says why a link signs nobody in."""
    return render("link_refused.html", status=410, title=refused.title, console=None, refused=refused)


def signed_in(cookies: Cookies, token: str) -> Answer[str]:
    """Return the redirect to the console that keeps a new session's token in the browser."""
    return Answer(
        status=303,
        headers=(
            (b"location", b"/console"),
            cookies.write(SESSION, token, seconds=MAX_AGE),
            cookies.write(MESSAGE, "You are signed in.", seconds=MESSAGE_SECONDS),
        ),
    )


async def end_previous(cookies: Cookies, tx: Write, *, now: datetime) -> None:
    """End the session that the browser has, which the new one replaces."""
    token = cookies.read(SESSION)
    previous = None if token is None else await sessions.find_session(tx, token, now=now)
    if previous is not None:
        await sessions.end_session(tx, previous, previous.id)


def work_context(call: Call[ReadBody, None], action: str, grant: Grant) -> WorkContext:
    """Return who acts, for the log and the audit trail."""
    head = call.head
    return WorkContext(
        action=action,
        console=grant.created_by,
        partner_id=grant.partner_id,
        request_id=head.request_id,
        trace_id=head.trace_id,
    )

"""Account: who is signed in, and where."""

from typing import Final

from mercato.domain.console import sessions
from mercato.http.console.screen import EVERYBODY, Done, Page, Screens, Visit
from mercato.kernel import errors

screens: Final = Screens(EVERYBODY)


@screens.get("account")
async def show_account(visit: Visit) -> Page:
    async with visit.app.db.read() as tx:
        found = await sessions.list_sessions(tx, visit.session, now=visit.app.clock())
    return Page("account.html", "Account", {"session": visit.session, "sessions": found})


@screens.post("account/sessions/{session}/end")
async def end_session(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        ended = await sessions.end_session(tx, visit.session, visit.ids["session"])
    if not ended:
        raise errors.NotFound("This account has no such session. It may have ended already.")
    return Done("The session has ended.", to="/console/account")

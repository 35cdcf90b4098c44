"""How a screen is written: a handler that gets a visit and returns a page or a result, declared with its path.

A GET shows a page. A POST acts, with the services that the API calls, and says what was done on the page after it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from msgspec import Struct

from mercato.console.forms import (
    MAX_FORM,
    Part,
    decode_fields,
    read_fields,
    read_query,
    read_upload,
    receive_parts,
)
from mercato.features.partners.model import Caller, Partner, Surface
from mercato.features.sign_in.model import Session
from mercato.features.sign_in.roles import Permission
from mercato.http.browsers import MULTIPART
from mercato.http.head import Head
from mercato.http.operations import Upload
from mercato.platform.telemetry.context import WorkContext
from mercato.services import Services
from mercato_contract.refusals import Problem
from mercato_contract.wire import redacted

T = TypeVar("T")


class Audience(Enum):
    """Whose sessions see a screen."""

    COMMERCE = Surface.COMMERCE
    MARKETFRONT = Surface.MARKETFRONT
    OPERATOR = "operator"


PARTNERS: Final = frozenset({Audience.COMMERCE, Audience.MARKETFRONT})
EVERYBODY: Final = frozenset(Audience)
MERCHANTS: Final = frozenset({Audience.COMMERCE})
STOREFRONTS: Final = frozenset({Audience.MARKETFRONT})
OPERATORS: Final = frozenset({Audience.OPERATOR})


class Entry(Struct, frozen=True):
    """An entry of the navigation: the name of a page, whose sessions see it, and its icon of `icons.py`."""

    name: str
    audiences: frozenset[Audience]
    icon: str


class Group(Struct, frozen=True):
    """Entries of the navigation below a heading."""

    name: str
    entries: tuple[Entry, ...]


NAVIGATION: Final = (
    Group(
        "Work",
        (
            Entry("Overview", PARTNERS, "layout-dashboard"),
            Entry("Health", OPERATORS, "activity"),
            Entry("Board", MERCHANTS, "columns-3"),
            Entry("Orders", EVERYBODY, "receipt-text"),
            Entry("Stores", EVERYBODY, "store"),
            Entry("Catalogs", MERCHANTS | OPERATORS, "book-open"),
            Entry("Reports", EVERYBODY, "chart-column"),
            Entry("Partners", OPERATORS, "building-2"),
        ),
    ),
    Group(
        "Developers",
        (
            Entry("Webhooks", PARTNERS, "webhook"),
            Entry("Refused requests", PARTNERS, "shield-alert"),
            Entry("Playground", STOREFRONTS, "flask-conical"),
            Entry("Keys", PARTNERS, "key-round"),
            Entry("Certification", MERCHANTS, "badge-check"),
            Entry("Agents", STOREFRONTS, "bot"),
        ),
    ),
    Group(
        "Service",
        (
            Entry("Webhooks", OPERATORS, "webhook"),
            Entry("Refused requests", OPERATORS, "shield-alert"),
            Entry("Jobs", OPERATORS, "list-checks"),
            Entry("Audit", OPERATORS, "scroll-text"),
            Entry("Erasure", OPERATORS, "eraser"),
        ),
    ),
    Group(
        "Account",
        (
            Entry("People", EVERYBODY, "users"),
            Entry("Account", EVERYBODY, "circle-user"),
        ),
    ),
)
"""The navigation in its order, in groups."""


def path_of(name: str) -> str:
    """Return the path of an entry of the navigation: its name in lower case, with dashes."""
    return name.lower().replace(" ", "-")


def audiences_of(session: Session) -> frozenset[Audience]:
    """Return whose screens the session sees: of both kinds, if it shows both sides of its partner."""
    if session.partner is None:
        return OPERATORS
    return frozenset(Audience(surface) for surface in session.surfaces)


class Page(Struct, frozen=True):
    """A page to show: a template and its values. `title` is its title and its heading.

    `timezone` is that of what it is about, if times are shown in it rather than in the browser's. With `has_pictures`
    it may load pictures from everywhere.
    """

    template: str
    title: str
    values: Mapping[str, Any] = {}
    status: int = 200
    timezone: str | None = None
    has_pictures: bool = False


class Download(Struct, frozen=True):
    """A file that is sent while it is made."""

    name: str
    media_type: bytes
    parts: AsyncGenerator[bytes]


class Done(Struct, frozen=True):
    """The result of an action: the message that the next page shows.

    `timezone` is the one that this browser is shown times in from now on.
    """

    message: str
    to: str
    timezone: str | None = None


@redacted("text")
class Secret(Struct, frozen=True):
    """What is shown once, with what to know about it, and the page to go back to: its name and path."""

    name: str
    text: str
    notes: tuple[str, ...]
    back: tuple[str, str]


def show_once(title: str, secret: Secret) -> Page:
    """Return the page that shows a new secret, and never again."""
    return Page("shown_once.html", title, {"secret": secret})


class Field(Struct, frozen=True, kw_only=True):
    """A field of a question, for a text. `options` make it a choice: what is sent, with what is read of it.

    Without a label it is hidden, and sends its value. `fault` is what is wrong with the value that was sent.
    """

    name: str
    label: str = ""
    value: str = ""
    options: Mapping[str, str] = {}
    is_required: bool = False
    fault: str | None = None


class Question(Struct, frozen=True):
    """What is asked before something that can't be undone. The page has the button `Confirm`.

    `names` are listed below the text. `choice` is a checkbox: the field's name, which is sent as `true`, and its label.
    `otherwise` is the link `back`, to what was there before. It isn't "Cancel", which could be what is asked about.
    """

    title: str
    text: str
    back: str
    otherwise: str = "Back"
    names: tuple[str, ...] = ()
    choice: tuple[str, str] | None = None
    fields: tuple[Field, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether the question is repeated because of a fault in the form."""
        return any(field.fault is not None for field in self.fields)


@dataclass(slots=True)
class Visit:
    """A request of a signed-in person."""

    app: Services
    head: Head
    session: Session
    action: str
    path: str
    ids: Mapping[str, UUID]
    form: bytes
    timezone: str
    """The one that this browser is shown times in, and sends them in."""
    receive: Upload | None = None
    """Reads the form of a screen that has a `max_upload`, as it arrives."""

    @property
    def is_operator(self) -> bool:
        return self.session.partner is None

    @property
    def partner(self) -> Partner:
        """The partner whose account it is. The operators' has none, and must not use it."""
        assert self.session.partner is not None, "a screen of partners"
        return self.session.partner

    def may(self, permission: Permission) -> bool:
        """Return whether the session's role includes it."""
        return self.session.may(permission)

    @property
    def store_id(self) -> UUID | None:
        """The only store that the session sees, if it is for one."""
        return self.session.grant.store_id

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        return self.session.surfaces

    def caller(self, surface: Surface) -> Caller:
        """Return the caller that the partner's services take, as for a request with its key."""
        return self.session.caller(surface)

    def caller_of(self, side: Surface | None) -> Caller:
        """Return the caller of the side that was chosen, or of the account's first."""
        return self.caller(side if side in self.surfaces else self.surfaces[0])

    def filters(self, kind: type[T], *, timezone: str | None = None) -> T:
        """Return the query as a struct; an empty field of a form is one left out.

        `timezone` is that of the page, if it has its own. Raises InvalidRequest, ValidationFailed.
        """
        return decode_fields(kind, read_query(self.head.query), timezone=timezone or self.timezone)

    def fields(self, kind: type[T], *, timezone: str | None = None) -> T:
        """Return the form that was sent as a struct. Raises InvalidRequest, ValidationFailed."""
        return decode_fields(kind, self.texts(), timezone=timezone or self.timezone)

    def texts(self) -> dict[str, str]:
        """Return the texts of the form that was sent, without those that are empty. Raises InvalidRequest."""
        content_type = self.head.headers.get(b"content-type", b"")
        if content_type.lower().startswith(MULTIPART):
            return read_upload(content_type, self.form)
        return read_fields(self.form)

    def parts(self) -> AbstractAsyncContextManager[Mapping[str, Part]]:
        """Read the form of a screen with a `max_upload`: its files stay open during the block."""
        assert self.receive is not None, "a screen with a max_upload"
        content_type = self.head.headers.get(b"content-type", b"")
        return receive_parts(content_type, self.receive, self.app.stores.new_document)

    def url_with(self, **changes: str | None) -> str:
        """Return this page's path and query with other values; None is for a name that is left out."""
        query = dict(parse_qsl(self.head.query.decode("ascii", "replace"))) | changes
        return f"/console/{self.path}?{urlencode({name: value for name, value in query.items() if value is not None})}"

    def check_store(self, store_id: UUID | None, missing: Problem) -> None:
        """Raise the refusal if the session is for another store."""
        if self.store_id is not None and self.store_id != store_id:
            raise missing

    def context(self) -> WorkContext:
        """Return the actor, for the log and the audit trail."""
        partner = self.session.partner
        return WorkContext(
            action=self.action,
            console=self.session.grant.created_by,
            partner_id=None if partner is None else partner.id,
            subjects={"store_id": self.ids.get("store")},
            request_id=self.head.request_id,
            trace_id=self.head.trace_id,
        )


Show = Callable[[Visit], Awaitable[Page | Download]]
Act = Callable[[Visit], Awaitable[Done | Page | Question]]
Ask = Callable[[Visit], Awaitable[Question]]


class Screen(Struct, frozen=True, kw_only=True):
    """A path below `/console`, with `{name}` for ids, and what is shown or done there."""

    path: str
    audiences: frozenset[Audience]
    action: str
    show: Show | None = None
    act: Act | None = None
    ask: Ask | None = None
    whole_account: bool = False
    """Not for sessions that see one store alone."""
    needs: Permission
    """What the session's role must include. It is checked before the handler runs."""
    max_form: int = MAX_FORM
    """Bytes of the action's form."""
    max_upload: int | None = None
    """Bytes of a form with large files, which `visit.parts` reads as they arrive."""


class Screens:
    """The screens of one entry of the navigation."""

    def __init__(self, audiences: frozenset[Audience], *, whole_account: bool = False) -> None:
        self._audiences = audiences
        self._whole_account = whole_account
        self._all: list[Screen] = []

    def __iter__(self) -> Iterator[Screen]:
        return iter(self._all)

    def get(
        self,
        path: str,
        *,
        audiences: frozenset[Audience] | None = None,
        needs: Permission = Permission.SEE,
    ) -> Callable[[Show], Show]:
        """Declare the handler below as what a path shows."""

        def add(show: Show) -> Show:
            self._add(path, show.__name__, audiences, show=show, needs=needs)
            return show

        return add

    def post(
        self,
        path: str,
        *,
        needs: Permission,
        audiences: frozenset[Audience] | None = None,
        ask: Ask | None = None,
        max_form: int = MAX_FORM,
        max_upload: int | None = None,
    ) -> Callable[[Act], Act]:
        """Declare the handler below as an action. With `ask`, a GET of the path shows the question."""

        def add(act: Act) -> Act:
            options = {"needs": needs, "max_form": max_form, "max_upload": max_upload}
            self._add(path, act.__name__, audiences, act=act, ask=ask, **options)
            return act

        return add

    def _add(self, path: str, name: str, audiences: frozenset[Audience] | None, **options: Any) -> None:
        words = name.split("_")
        self._all.append(
            Screen(
                path=path,
                audiences=audiences or self._audiences,
                action="console." + words[0] + "".join(word.title() for word in words[1:]),
                whole_account=self._whole_account,
                **options,
            )
        )

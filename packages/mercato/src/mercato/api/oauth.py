"""What a partner gets for its key: access tokens (RFC 6749, client credentials) and links to the console."""

import base64
import binascii
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl, unquote_plus
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mercato.features.partners.callers import AccessToken, SuspendedPartner
from mercato.features.partners.model import Caller, Surface, looks_like_token
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.features.stores.model import StoreNotFound
from mercato.http.head import Head, bearer_token
from mercato.http.operations import Access, Answer, Call, Operations, Refusals, problem_headers
from mercato.platform import errors
from mercato.platform.problem_details import Context, members_of
from mercato.platform.telemetry.context import set_context
from mercato.services import Services
from mercato_contract.console import ConsoleLink, ConsoleLinkRequest
from mercato_contract.problems import ProblemDetail
from mercato_contract.refusals import InvalidRequest, Problem
from mercato_contract.wire import Wire, as_json, parse_uuid, redacted, rfc3339

oauth = Operations(access=Access.PUBLIC, tag="Tokens")

FORM: Final = "application/x-www-form-urlencoded"
NO_STORE: Final = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))
GRANT: Final = "client_credentials"
CHALLENGE: Final = 'Basic realm="mercato", charset="UTF-8"'

MAX_PARAMETERS: Final = 50

MAX_BYTES: Final = 8 * 1024
"""Bytes of a form. Anybody may send one, and the longest useful one has 300."""

_ERRORS: Final = {401: "invalid_client", 429: "temporarily_unavailable", 503: "temporarily_unavailable"}
_OURS: Final = ("grant_type", "client_id", "client_secret", "scope")


@redacted("client_secret")
class TokenRequest(Wire, rename="lower"):
    """A form. Send the client's id and secret here or by HTTP Basic, not both."""

    grant_type: Annotated[str, Meta(description="`client_credentials`.")]
    client_id: Annotated[str, Meta(description="The id of a marketfront key.")] | UnsetType = UNSET
    client_secret: Annotated[str, Meta(description="The key.")] | UnsetType = UNSET
    scope: Annotated[str, Meta(description="Leave it empty: there are no scopes.")] | UnsetType = UNSET


@redacted("access_token")
class TokenResponse(Wire, rename="lower"):
    """An access token for `Authorization: Bearer`, valid for `expires_in` seconds."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int


class TokenRefusal(ProblemDetail, kw_only=True):
    """A problem with the members of RFC 6749. OAuth clients read `error`."""

    error: str
    error_description: str = msgspec.field(name="error_description")


class InvalidClientError(errors.Unauthenticated):
    """The client's credentials are missing or wrong."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, sent=True)
        self.challenge = CHALLENGE


def render(problem: Problem, context: Context) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of a refusal for OAuth clients."""
    other = "server_error" if problem.status >= 500 else "invalid_request"  # noqa: PLR2004  # HTTP's own line
    members: dict[str, Any] = {
        "error": _ERRORS.get(problem.status, other),
        "error_description": _quotable(problem.detail),
    }
    headers = [(b"content-type", b"application/json"), *NO_STORE, *problem_headers(problem)]
    return problem.status, headers, as_json(members | members_of(problem, context))


@oauth.post(
    "/v1/oauth/token",
    summary="Get Access Token",
    schema=TokenRequest,
    body_limit=MAX_BYTES,
    body_type=FORM,
    answer_headers=("Cache-Control", "Pragma"),
    refusals=Refusals(TokenRefusal, "application/json", render),
    reads=("clientSecret",),
    problems=(InvalidRequest, errors.Unauthenticated, errors.RateLimited),
)
async def get_access_token(call: Call[bytes, None]) -> Answer[TokenResponse]:
    """Exchange a marketfront key for an access token: OAuth 2.0 client credentials (RFC 6749).

    The client id is the key's id, the secret is the key; send both by HTTP Basic or in the form. The token gives the
    access of the key for an hour, and ends with the key. Failures are limited by client and by address; the right key
    is never refused because of them.
    """
    form = _form(call.body, call.headers.get(b"content-type", b""))
    _check_grant(form)
    client, secret = _credentials(form, call.headers.get(b"authorization", b""))
    client_id = parse_uuid(client)
    failures, address = call.app.failures, call.head.address
    wait = None if failures is None else failures.wait(client_id, address)
    try:
        token = await _issue(call, client_id, secret, suspect=wait is not None)
    except InvalidClientError:
        # Only wrong credentials are counted and refused, so nobody can lock a client out by failing in its name.
        if wait is not None:
            raise errors.RateLimited(f"Too many failed attempts. Wait {wait} s.", retry_after=wait) from None
        if failures is not None:
            failures.record(client_id, address)
        raise
    return Answer(
        TokenResponse(access_token=token.text, token_type="Bearer", expires_in=token.seconds),  # noqa: S106  # a type
        headers=NO_STORE,
    )


async def _issue(
    call: Call[bytes, None], client_id: UUID | None, secret: bytes, *, suspect: bool
) -> AccessToken:
    if client_id is None:
        raise InvalidClientError("The client id isn't a UUID. Send the id of a marketfront key.")
    try:
        return await call.app.callers.issue(client_id, secret, suspect=suspect)
    except errors.Unauthenticated as refused:
        raise InvalidClientError(refused.detail) from None
    except SuspendedPartner as refused:
        call.authenticated = refused.caller
        set_context(call)
        raise _invalid("unauthorized_client", refused.detail) from None
    except errors.Forbidden as refused:
        raise _invalid("unauthorized_client", refused.detail) from None


def _form(body: bytes, content_type: bytes) -> dict[str, str]:
    """Return the form's parameters that have a value; one without counts as absent (RFC 6749, 3.2)."""
    kind = content_type.partition(b";")[0].strip().lower()
    if kind not in {b"", FORM.encode()}:
        raise _invalid("invalid_request", f"Send a form, with the header Content-Type: {FORM}.")
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict"
        )
    except ValueError:
        raise _invalid(
            "invalid_request", f"The form isn't UTF-8, or has more than {MAX_PARAMETERS} parameters."
        ) from None
    names = [name for name, _ in pairs]
    for name in _OURS:
        if names.count(name) > 1:
            raise _invalid("invalid_request", f"{name} is sent twice. Send it once.")
    return {name: value for name, value in pairs if value}


def _check_grant(form: dict[str, str]) -> None:
    grant = form.get("grant_type")
    if grant is None:
        raise _invalid("invalid_request", f"grant_type is missing. Send grant_type={GRANT}.")
    if grant != GRANT:
        raise _invalid("unsupported_grant_type", f"The only supported grant is {GRANT}.")
    if "scope" in form:
        raise _invalid("invalid_scope", "There are no scopes: a token has the access of its key. Send none.")


def _credentials(form: dict[str, str], authorization: bytes) -> tuple[str, bytes]:
    """Return client id and secret, from HTTP Basic or from the form."""
    scheme, _, sent = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        if "client_id" not in form or "client_secret" not in form:
            raise InvalidClientError(
                "Send the id of a marketfront key as client_id and the key as client_secret, or both by HTTP Basic."
            )
        return form["client_id"], form["client_secret"].encode()
    client, secret = _basic(sent)
    if "client_secret" in form or form.get("client_id", client) != client:
        raise _invalid(
            "invalid_request", "Credentials are sent twice. Send them by HTTP Basic or in the form."
        )
    return client, secret


def _basic(sent: bytes) -> tuple[str, bytes]:
    """Return the credentials of HTTP Basic, each of which is form-encoded (RFC 6749, 2.3.1)."""
    try:
        client, secret = base64.b64decode(sent.strip(), validate=True).decode().split(":", 1)
        return unquote_plus(client, errors="strict"), unquote_plus(secret, errors="strict").encode()
    except (binascii.Error, ValueError):
        raise InvalidClientError("The HTTP Basic credentials aren't base64 of <key id>:<key>.") from None


def _invalid(error: str, detail: str) -> InvalidRequest:
    return InvalidRequest(detail, extensions={"error": error})


def _quotable(text: str) -> str:
    """Return the text in the characters that RFC 6749 allows in a description."""
    return "".join(
        char if " " <= char <= "~" and char not in '"\\' else "'" if char == '"' else "?" for char in text
    )


console = Operations(access=Access.ANY, tag="Console", for_agents=False)


def _refuse_token(head: Head) -> None:
    """Raise Forbidden for an access token: its hour would become a session that makes keys."""
    if looks_like_token(bearer_token(head)):
        raise errors.Forbidden(
            "An access token can't open the console: its session could outlive the token. "
            "Create the link with the key itself: Authorization: Bearer <your key>."
        )


@console.post(
    "/v1/console/links",
    summary="Create Console Link",
    status=201,
    problems=(StoreNotFound, errors.Forbidden),
    checks_head=_refuse_token,
)
async def create_console_link(call: Call[ConsoleLinkRequest | None, None]) -> ConsoleLink:
    """Return a one-time link into the console of this account, valid for 15 minutes.

    With a key of either surface, not with an access token. The session that it begins shows this key's surface. It ends
    with this key, and when the partner is suspended.
    """
    wanted = call.body or ConsoleLinkRequest()
    app, caller = call.app, call.caller
    if wanted.store_id is not None:
        await _check_store(app, caller, wanted.store_id)
    grant = Grant(
        partner_id=caller.partner_id,
        created_by=call.context().actor,
        key_id=caller.key_id,
        store_id=wanted.store_id,
        read_only=bool(wanted.read_only),
    )
    async with app.db.write() as tx:
        link = await sessions.create_link(tx, grant, now=app.clock())
    return ConsoleLink(
        url=f"{call.head.base_url}/console/links/{link.token}", expires_at=rfc3339(link.expires_at)
    )


async def _check_store(app: Services, caller: Caller, store_id: UUID) -> None:
    """Raise StoreNotFound unless the caller has the store, or as a storefront can see it."""
    if caller.surface is Surface.COMMERCE:
        await app.cache.get_own(caller, store_id)
    elif await app.cache.find_in_force(store_id) is None:
        raise StoreNotFound(store_id)

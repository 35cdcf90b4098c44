"""Sign-in with an OpenID Connect provider: its configuration, tokens and keys, and one attempt's way there and back."""

import asyncio
import base64
import binascii
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import structlog
from msgspec import Struct

from mercato.features.partners.limits import network_of
from mercato.features.partners.vault import Vault, VaultError
from mercato.features.sign_in.model import Grant, People
from mercato.platform.errors import Forbidden, RateLimited, ServiceUnavailable
from mercato.settings import Settings, SettingsError
from mercato_contract.clock import Clock
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import as_json, redacted
from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy, is_loopback
from mercato_outbound.results import NotModified, Options, PullLimits, RequestFailed

log = structlog.get_logger("mercato.console")

T = TypeVar("T")

LEEWAY_SECONDS: Final = 120
"""How far the provider's clock may be from ours."""

PROVIDER_LIFE: Final = timedelta(hours=1)
"""How long the provider's configuration and keys are used before they are read again."""

KEYS_STEP: Final = timedelta(seconds=30)
"""After which a token with an unknown key makes them be read earlier: the provider may have a new one."""

RETRY_STEP: Final = timedelta(seconds=5)
"""How long a provider that failed isn't called again."""

SECONDS: Final = 10.0
MAX_REPLY: Final = 256 * 1024
MAX_KEYS: Final = 100

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Signatures with a key pair. Never `none`, nor a secret that the public key could stand for."""

_LIMITS: Final = PullLimits(
    connect=5.0, total=SECONDS, max_raw=MAX_REPLY, max_decoded=MAX_REPLY, redirects=0, waits=()
)
AGAIN: Final = "Start the sign-in again."


class Configuration(Struct, frozen=True):
    """What is used of a provider's configuration (OpenID Connect Discovery, 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    id_token_signing_alg_values_supported: tuple[str, ...] = ("RS256",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _KeySet(Struct, frozen=True):
    keys: list[dict[str, Any]]


@redacted("id_token")
class _Tokens(Struct, frozen=True):
    id_token: str


class _Known(Struct, frozen=True, kw_only=True):
    configuration: Configuration
    keys: Any
    """joserfc's `KeySet`, which is imported at the first use."""
    read_at: datetime


class ProviderFailed(Exception):  # noqa: N818  # a refusal, as Problem is
    """The provider didn't answer, or not as its protocol says. `step` and `reason` are for the log."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.reason = reason


class InvalidIdToken(Exception):  # noqa: N818  # a refusal, as Problem is
    """The provider's ID token isn't valid for this service. The log has the cause."""


class Provider:
    """The provider, read when it is needed."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Raises SettingsError."""
        self.issuer, self.client_id, self._secret = check_settings(settings)
        self._clock = clock
        # The operator has chosen the provider, which is often in a private network.
        self._outbound = Outbound(Options(policy=AddressPolicy(allow_private=True), clock=clock))
        self._known: _Known | None = None
        self._failed_at: datetime | None = None
        self._reading = asyncio.Lock()

    async def close(self) -> None:
        await self._outbound.close()

    async def configuration(self) -> Configuration:
        """Return the provider's configuration. Raises ProviderFailed, also if none of its keys can be used."""
        return (await self._read_known()).configuration

    async def exchange(self, code: str, verifier: str, callback_url: str) -> str:
        """Return the ID token that the provider gives for a code. Raises Forbidden, ProviderFailed."""
        configuration = await self.configuration()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback_url,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if "client_secret_basic" in configuration.token_endpoint_auth_methods_supported:
            pair = f"{quote(self.client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": self.client_id, "client_secret": self._secret}
        try:
            reply = await self._outbound.post(
                configuration.token_endpoint,
                headers=headers,
                body=urlencode(form).encode(),
                timeout=SECONDS,
                max_reply=MAX_REPLY,
            )
        except RequestFailed as failed:
            raise _failure("token", failed) from failed
        if reply.status == 400:  # noqa: PLR2004  # RFC 6749, 5.2: a code that was used, is too old, or isn't for us
            log.warning("single sign-on refused", step="token", reason="the provider answered 400")
            raise Forbidden(f"The provider no longer accepts this sign-in. {AGAIN}")
        if reply.status != 200:  # noqa: PLR2004
            raise ProviderFailed("token", f"the provider answered {reply.status}")
        try:
            return msgspec.json.decode(reply.body, type=_Tokens).id_token
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProviderFailed("token", str(error)) from error

    async def verify(self, token: str, nonce: str) -> dict[str, object]:
        """Return the claims of a valid ID token (OpenID Connect Core, 3.1.3.7). Raises Forbidden, ProviderFailed."""
        from joserfc.errors import InvalidKeyIdError, JoseError

        known = await self._read_known()
        try:
            try:
                return self._claims(token, nonce, known)
            except InvalidKeyIdError:
                return self._claims(token, nonce, await self._read_known(has_new_key=True))
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            log.warning("single sign-on refused", step="ID token", reason=f"{type(error).__name__}: {error}")
            raise InvalidIdToken from error

    def _claims(self, token: str, nonce: str, known: _Known) -> dict[str, object]:
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.jws import JWSRegistry

        offered = known.configuration.id_token_signing_alg_values_supported
        registry = JWSRegistry(
            algorithms=[algorithm for algorithm in ALGORITHMS if algorithm in offered],
            strict_check_header=False,
        )
        decoded = jwt.decode(token, known.keys, registry=registry)
        claims = CodeIDToken(
            decoded.claims,
            decoded.header,
            {
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": self.client_id},
            },
            {"nonce": nonce, "client_id": self.client_id},
        )
        claims.validate(now=int(self._clock().timestamp()), leeway=LEEWAY_SECONDS)
        return dict(claims)

    # --- what is read of it -------------------------------------------------------------------------------

    async def _read_known(self, *, has_new_key: bool = False) -> _Known:
        """Return the provider's configuration and keys, which are read again after a time. Raises ProviderFailed."""
        async with self._reading:
            known, now = self._known, self._clock()
            if known is not None and now - known.read_at < (KEYS_STEP if has_new_key else PROVIDER_LIFE):
                return known
            if self._failed_at is not None and now - self._failed_at < RETRY_STEP:
                raise ProviderFailed("configuration", "it failed a moment ago")
            try:
                await asyncio.to_thread(_import_authlib)
                configuration = await self._read_configuration()
                keys = _usable((await self._read(configuration.jwks_uri, _KeySet, "keys")).keys)
            except ProviderFailed:
                self._failed_at = now
                raise
            self._failed_at = None
            self._known = _Known(configuration=configuration, keys=keys, read_at=now)
            return self._known

    async def _read_configuration(self) -> Configuration:
        url = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
        found = await self._read(url, Configuration, "configuration")
        if found.issuer != self.issuer:
            raise ProviderFailed(
                "configuration", f"the issuer is {found.issuer[:200]!r}: write MERCATO_OIDC_ISSUER so"
            )
        scheme = urlsplit(self.issuer).scheme
        for endpoint in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            parts = urlsplit(endpoint)
            if parts.scheme not in {"https", scheme} or not parts.netloc or not _is_url(endpoint):
                raise ProviderFailed("configuration", f"{endpoint[:200]!r} isn't an https address")
        return found

    async def _read(self, url: str, kind: type[T], step: str) -> T:
        try:
            pulled = await self._outbound.pull(url, limits=_LIMITS)
        except RequestFailed as failed:
            raise _failure(step, failed) from failed
        assert not isinstance(pulled, NotModified), "no ETag was sent"
        try:
            return msgspec.json.decode(pulled.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProviderFailed(step, str(error)) from error
        finally:
            pulled.document.close()


def check_settings(settings: Settings) -> tuple[str, str, str]:
    """Return issuer, client id and secret. Raises SettingsError."""
    issuer, client_id, secret = settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret
    if issuer is None or client_id is None or secret is None:
        raise SettingsError(
            "Single sign-on needs MERCATO_OIDC_ISSUER, MERCATO_OIDC_CLIENT_ID and MERCATO_OIDC_CLIENT_SECRET: "
            "set the missing ones, or none."
        )
    parts = urlsplit(issuer)
    is_local = is_loopback(parts.hostname) or settings.allow_private_networks
    if parts.scheme.lower() != "https" and not is_local:
        raise SettingsError(
            "MERCATO_OIDC_ISSUER must begin with https://. Only a provider on this machine may use http."
        )
    if "openid" not in settings.oidc_scope.split():
        raise SettingsError("MERCATO_OIDC_SCOPE must contain openid, as in 'openid email groups'.")
    if find_spec("authlib") is None or find_spec("joserfc") is None:
        raise SettingsError("MERCATO_OIDC_ISSUER needs an extra: pip install 'mercato[oidc]'")
    return issuer, client_id, secret.reveal()


def _import_authlib() -> None:
    """Import it in a thread: it takes a fifth of a second, and the event loop has requests to serve."""
    import joserfc.jwk
    import joserfc.jws
    import joserfc.jwt  # noqa: F401  # into sys.modules


def _usable(keys: Sequence[dict[str, Any]]) -> Any:
    """Return a `KeySet` of the keys that can be read (RFC 7517, 5). Raises ProviderFailed if there is none."""
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, KeySet

    usable = []
    for key in keys[:MAX_KEYS]:
        if key.get("kty") == "oct" or key.get("use") == "enc":
            continue
        try:
            usable.append(JWKRegistry.import_key(key))
        except (JoseError, ValueError, TypeError, LookupError):
            continue
    if not usable:
        raise ProviderFailed("keys", "none of its keys can be used")
    return KeySet(usable)


def _is_url(text: str) -> bool:
    return text.isascii() and text.isprintable() and not set(text) & set(' "<>\\^`{|}#')


def _failure(step: str, failed: RequestFailed) -> ProviderFailed:
    status = "" if failed.status is None else f" {failed.status}"
    return ProviderFailed(step, f"{failed.fault}{status}")


ATTEMPT_LIFE: Final = timedelta(minutes=10)
"""How long somebody may take at the provider."""

MAX_SIGN_INS: Final = 32
"""Code exchanges at one time: anybody can begin one. Each is a connection to the provider for ten seconds at most."""

MAX_SIGN_INS_AT: Final = 4
"""Of these, from one address, so that no other is kept out."""

RETRY_AFTER: Final = 10
"""Seconds until a sign-in that was refused for them may begin again."""

PURPOSE: Final = "mercato console sign-on"


class _Attempt(Struct, frozen=True, kw_only=True):
    """What is kept in the browser that somebody begins with, sealed."""

    state: str
    nonce: str
    verifier: str
    expires_at: datetime


class Callback(Struct, frozen=True, kw_only=True):
    """The query with which the provider sends a browser back."""

    state: str = ""
    code: str = ""
    error: str = ""
    error_description: str = ""
    iss: str | None = None


class SignOn:
    """Sign-in with the provider that the settings name."""

    def __init__(self, settings: Settings, vault: Vault, clock: Clock) -> None:
        """Raises SettingsError."""
        self._provider = Provider(settings, clock)
        self.people = People(settings.oidc_operators, settings.oidc_support, settings.oidc_viewers)
        self._scope = settings.oidc_scope
        self._vault = vault
        self._link_key = vault.derive(PURPOSE)[0]
        self._clock = clock
        self._running: Counter[str] = Counter()

    async def close(self) -> None:
        await self._provider.close()

    async def begin(self, callback_url: str) -> tuple[str, str]:
        """Return where to send the browser, and what it keeps for the way back. Raises ProviderFailed."""
        with _logged():
            configuration = await self._provider.configuration()
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        attempt = _Attempt(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            expires_at=self._clock() + ATTEMPT_LIFE,
        )
        parameters = {
            "response_type": "code",
            "client_id": self._provider.client_id,
            "redirect_uri": callback_url,
            "scope": self._scope,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": create_s256_code_challenge(attempt.verifier),
            "code_challenge_method": "S256",
        }
        endpoint = configuration.authorization_endpoint
        separator = "&" if "?" in endpoint else "?"
        sealed = self._vault.seal(as_json(attempt).decode(), context=PURPOSE)
        return f"{endpoint}{separator}{urlencode(parameters)}", base64.urlsafe_b64encode(sealed).decode()

    async def finish(
        self, answer: Callback, kept: str | None, callback_url: str, *, address: str
    ) -> tuple[Grant, str]:
        """Return what the person may open, and the token for the one link of this attempt.

        Raises Problem, ProviderFailed, InvalidIdToken.

        The provider is called only for what began in this browser, for a few browsers of one address at a time.
        """
        attempt = self._attempt(kept)
        if attempt is None or not secrets.compare_digest(answer.state.encode(), attempt.state.encode()):
            raise Forbidden(f"This sign-in didn't start in this browser within the last ten minutes. {AGAIN}")
        if answer.iss is not None and answer.iss != self._provider.issuer:
            raise Forbidden(f"This response came from another provider. {AGAIN}")
        if answer.error or not answer.code:
            reason = f"{answer.error} {answer.error_description}".strip()[:200] or "no code"
            raise Forbidden(f"The provider refused the sign-in: {reason}. {AGAIN}")
        with self._slot(network_of(address)), _logged():
            token = await self._provider.exchange(answer.code, attempt.verifier, callback_url)
            grant = self._admit(await self._provider.verify(token, attempt.nonce))
        link = hmac_sha256(self._link_key, attempt.state.encode())
        return grant, base64.urlsafe_b64encode(link).decode().rstrip("=")

    @contextmanager
    def _slot(self, network: str) -> Iterator[None]:
        """Hold one of the exchanges. Nobody waits for one. Raises RateLimited, ServiceUnavailable."""
        if self._running[network] >= MAX_SIGN_INS_AT:
            raise RateLimited(
                f"{MAX_SIGN_INS_AT} other sign-ins from your network are waiting for the provider. "
                f"Wait {RETRY_AFTER} s. {AGAIN}",
                retry_after=RETRY_AFTER,
            )
        if self._running.total() >= MAX_SIGN_INS:
            raise ServiceUnavailable(
                f"Too many people are signing in. Wait {RETRY_AFTER} s. {AGAIN}", retry_after=RETRY_AFTER
            )
        self._running[network] += 1
        try:
            yield
        finally:
            self._running[network] -= 1
            if not self._running[network]:
                del self._running[network]

    def _attempt(self, kept: str | None) -> _Attempt | None:
        try:
            sealed = base64.urlsafe_b64decode(kept or "")
            text = self._vault.open(sealed, context=PURPOSE)
            attempt = msgspec.json.decode(text, type=_Attempt)
        except (binascii.Error, ValueError, VaultError):
            return None
        return attempt if attempt.expires_at > self._clock() else None

    def _admit(self, claims: dict[str, object]) -> Grant:
        """Return what the person of the ID token may open. Raises Forbidden."""
        grant = self.people.admit(claims)
        if grant is None:
            log.warning("single sign-on refused", step="person", reason="no rule lets the person in")
            raise Forbidden(
                "The provider knows you, but you have no access to this service. "
                "Ask its operator to add you to MERCATO_OIDC_OPERATORS, MERCATO_OIDC_SUPPORT or MERCATO_OIDC_VIEWERS. "
                "An e-mail address counts only if the provider has verified it."
            )
        return grant


@contextmanager
def _logged() -> Iterator[None]:
    """Log why the provider failed."""
    try:
        yield
    except ProviderFailed as failed:
        log.warning("single sign-on failed", step=failed.step, reason=failed.reason)
        raise

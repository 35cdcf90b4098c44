"""The OpenID Connect provider that the settings name: its configuration, its keys, and the ID tokens that it gives.

authlib checks ID tokens; it is imported at the first use. Calls are bounded in time and size.
"""

import asyncio
import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import structlog
from msgspec import Struct

from mercato.platform.clock import Clock
from mercato.platform.errors import Forbidden
from mercato.platform.outbound.addresses import AddressPolicy
from mercato.platform.outbound.client import Outbound
from mercato.platform.outbound.results import NotModified, Options, PullLimits, RequestFailed
from mercato.settings import Settings, SettingsError
from mercato_contract.wire import redacted

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
        except (msgspec.DecodeError, RecursionError) as error:
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
            algorithms=[one for one in ALGORITHMS if one in offered], strict_check_header=False
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
        except (msgspec.DecodeError, RecursionError) as error:
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
    is_local = parts.hostname in {"localhost", "127.0.0.1", "::1"} or settings.allow_private_networks
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

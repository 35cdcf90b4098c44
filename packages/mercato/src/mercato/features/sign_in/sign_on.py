"""Sign-in of operators with an OpenID Connect provider: authorization code with PKCE, state and nonce.

What is begun in a browser is kept there, sealed. No call to the provider is made in a transaction.
"""

import base64
import binascii
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

import msgspec
import structlog
from msgspec import Struct

from mercato.features.partners.limits import network_of
from mercato.features.partners.vault import Vault, VaultError
from mercato.features.sign_in.model import Grant
from mercato.features.sign_in.people import People
from mercato.features.sign_in.provider import AGAIN, Provider, ProviderFailed
from mercato.platform.clock import Clock
from mercato.platform.errors import Forbidden, RateLimited, ServiceUnavailable
from mercato.settings import Settings
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import as_json

log = structlog.get_logger("mercato.console")

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
        self.people = People(settings.oidc_operators, settings.oidc_viewers)
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
                "Ask its operator to add you to MERCATO_OIDC_OPERATORS or MERCATO_OIDC_VIEWERS. An e-mail address "
                "counts only if the provider has verified it."
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

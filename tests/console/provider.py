"""An OpenID Connect provider on loopback: it signs the configured person in, and can misbehave."""

import base64
import hashlib
import inspect
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlencode

from aiohttp import BasicAuth, web
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from mercato_client.testing.server import app_of, listening
from mercato_contract import clock

KEY: Final = RSAKey.generate_key(2048, {"kid": "1"})
CLIENT_ID: Final = "mercato console"
CLIENT_SECRET: Final = "a:secret with+signs"


@dataclass
class Provider:
    """A provider with one client. `person` are the claims of the person who signs in; None denies."""

    issuer: str = ""
    person: dict[str, Any] | None = field(
        default_factory=lambda: {"sub": "248289", "email": "anna@example.com", "email_verified": True}
    )
    key: RSAKey = field(default_factory=lambda: KEY)
    configuration: dict[str, Any] = field(default_factory=dict)
    """Members of the configuration that differ."""
    forge: Callable[[dict[str, Any]], str | None] = lambda _: None
    """Returns another ID token for these claims."""
    answers: dict[str, Callable[[web.Request], Any]] = field(default_factory=dict)
    """Other answers, by path: functions or coroutines."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """The requests for authorization."""
    calls: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid, **header}, claims, self.key)

    def claims(self, nonce: str) -> dict[str, Any]:
        now = int(clock.now().timestamp())
        told = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        return told | (self.person or {})

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(request.path)
        other = self.answers.get(request.path)
        if other is not None:
            answer: web.StreamResponse = other(request)
            return await answer if inspect.isawaitable(answer) else answer
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(self._configuration())
            case "/keys":
                return web.json_response(KeySet([self.key]).as_dict())
            case "/authorize":
                return self._authorize(dict(request.query))
            case "/token":
                return self._token(request.headers, dict(await request.post()))
        return web.Response(status=404)

    def _configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        } | self.configuration

    def _authorize(self, query: dict[str, str]) -> web.Response:
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == CLIENT_ID
        self.asked.append(query)
        code = secrets.token_urlsafe()
        self._codes[code] = query
        answer = (
            {"code": code} if self.person else {"error": "access_denied", "error_description": "<b>No</b>"}
        )
        url = f"{query['redirect_uri']}?{urlencode(answer | {'state': query['state']})}"
        return web.Response(status=302, headers={"Location": url})

    def _token(self, headers: Any, form: dict[str, Any]) -> web.Response:
        sent = BasicAuth.decode(headers["Authorization"])
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (unquote(sent.login), unquote(sent.password)) != (CLIENT_ID, CLIENT_SECRET):
            return web.json_response({"error": "invalid_client"}, status=401)
        if (
            asked is None
            or challenge != asked["code_challenge"]
            or form["redirect_uri"] != asked["redirect_uri"]
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        claims = self.claims(asked["nonce"])
        token = self.forge(claims) or self.sign(claims)
        return web.json_response({"access_token": "opaque", "token_type": "Bearer", "id_token": token})


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """Run a provider on a free loopback port. Its host is `localhost`: another site than the service's 127.0.0.1."""
    made = Provider()
    async with listening(app_of(made.serve), closing=1) as base:
        made.issuer = base.replace("127.0.0.1", "localhost")
        yield made

"""The client without a network: its address and key, and when a request is retried."""

import os
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlsplit

from mercato_client.errors import (
    ConfigurationError,
    MercatoError,
    NoAnswerError,
    ProblemError,
    RateLimitError,
)
from mercato_client.exchange import Prepared, Request, Response, Steps, pause, read, send
from mercato_contract import USER_AGENT

R = TypeVar("R")

URL: Final = "MERCATO_URL"
KEY: Final = "MERCATO_KEY"

TIMEOUT: Final = 30.0
"""Seconds for one attempt: twice what placing an order may take."""

MIN_TIMEOUT: Final = 0.05
"""Seconds that an attempt gets even shortly before a deadline."""

_PRINTABLE: Final = re.compile(r"[\x21-\x7e]+")
_BLANK: Final = re.compile(r"\s")
_SURFACE: Final = re.compile(r"/v1(/commerce|/marketfront)?$")
_IDEMPOTENCY_KEY: Final = re.compile(r"[\x20-\x7e]{1,255}")
_UNAVAILABLE: Final = frozenset({500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a request that may be repeated is retried, and after which waits.

    Waits are random up to a bound that doubles from `first_wait`, and added to a `Retry-After`. The request isn't
    retried if that is longer than `longest_wait`: the exception has it.
    """

    attempts: int = 4
    first_wait: float = 0.25
    longest_wait: float = 30.0
    chance: Callable[[], float] = random.random

    def wait_after(self, fault: MercatoError, *, attempt: int, repeats: bool) -> float | None:
        """Return the seconds to wait before the next attempt, None when there is none."""
        if attempt >= self.attempts or not _may_repeat(fault, repeats=repeats):
            return None
        requested = (fault.retry_after or 0.0) if isinstance(fault, ProblemError) else 0.0
        step = min(self.first_wait * 2 ** (attempt - 1), self.longest_wait)
        return requested + step * self.chance() if requested <= self.longest_wait else None


NEVER: Final = Retries(attempts=1)
"""Sends everything once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The address, key and retries of requests."""

    url: str
    key: str = field(repr=False)
    timeout: float = TIMEOUT
    retries: Retries = field(default_factory=Retries)
    clock: Callable[[], float] = time.monotonic

    def exchange(self, request: Request[R], *, deadline: float | None = None) -> Steps[tuple[R, Response]]:
        """Send the request, with retries; return the decoded answer, and the reply itself.

        `deadline` is by the client's clock.
        """
        prepared = self._prepared(request)
        attempt = 0
        while True:
            attempt += 1
            try:
                remaining = None if deadline is None else max(MIN_TIMEOUT, deadline - self.clock())
                reply = yield from send(prepared, remaining)
                return read(request, reply), reply
            except MercatoError as fault:
                fault.idempotency_key = request.idempotency_key
                wait = self.retries.wait_after(fault, attempt=attempt, repeats=request.repeats)
                if wait is None or (deadline is not None and self.clock() + wait >= deadline):
                    raise
            yield from pause(wait)

    def perform(self, request: Request[R]) -> Steps[R]:
        """Send the request; return the decoded answer."""
        answer, _ = yield from self.exchange(request)
        return answer

    def _prepared(self, request: Request[R]) -> Prepared:
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Accept": "application/json, application/problem+json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"{USER_AGENT} (client)",
        }
        body = request.content()
        if body is not None:
            headers["Content-Type"] = "application/json"
        if request.idempotency_key is not None:
            if not _IDEMPOTENCY_KEY.fullmatch(request.idempotency_key):
                raise ConfigurationError("An idempotency key must have 1 to 255 printable ASCII characters.")
            headers["Idempotency-Key"] = request.idempotency_key
        return Prepared(method=request.method, target=request.target(), headers=headers, body=body)


def core_of(
    url: str | None,
    key: str | None,
    *,
    timeout: float,
    retries: Retries | None,
    environment: Mapping[str, str] = os.environ,
) -> Core:
    """Return the core for the arguments, or else for the environment. Raises ConfigurationError."""
    return Core(
        url=_url(url or environment.get(URL, "")),
        key=_key(key or environment.get(KEY, "")),
        timeout=timeout,
        retries=retries or Retries(),
    )


def _url(text: str) -> str:
    if not text.strip():
        raise ConfigurationError(
            f"No address of a service is given. Give url, or set {URL}, such as http://127.0.0.1:8000."
        )
    text = text.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        # A name that can't be encoded for a resolver isn't a host.
        host = (parts.hostname or "").encode("idna")
        written = text.isprintable() and not _BLANK.search(text)
        usable = parts.scheme in {"http", "https"} and host and (parts.port or 1) and written
    except ValueError:
        usable = False
    if "@" in text:
        raise ConfigurationError(
            "The URL of a service must not have a user name or a password. Give the key separately."
        )
    if not usable or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{text[:100]!r} isn't the URL of a service. Give one like http://127.0.0.1:8000."
        )
    if surface := _SURFACE.search(text):
        raise ConfigurationError(
            f"{text[:100]!r} ends in {surface[0]}, which the client adds itself. Give the part before it."
        )
    return text


def _key(text: str) -> str:
    text = text.strip()
    if not text:
        raise ConfigurationError(
            f"No key is given. Give key, or set {KEY}: mercato partner create prints one."
        )
    if not _PRINTABLE.fullmatch(text):
        raise ConfigurationError("The key contains a space or another character that keys never have.")
    return text


def _may_repeat(fault: MercatoError, *, repeats: bool) -> bool:
    """Return whether the same request may succeed later, and is safe to repeat."""
    match fault:
        case NoAnswerError():
            return repeats or not fault.sent
        case RateLimitError():
            return True
        case ProblemError():
            passing = fault.status in _UNAVAILABLE or fault.code == "REQUEST_IN_PROGRESS"
            return repeats and passing and fault.retryable is not False
        case _:
            return False

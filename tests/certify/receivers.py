"""Receivers of webhooks with one bug each, of either side: how they verify, and how their servers take odd requests."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from mercato.outbound.signing import signing_key
from mercato.testing import Double

SECRET = "whsec_" + base64.b64encode(b"certify this merchant, 32 bytes!").decode()
TOLERANCE = 300

BUGS: dict[str, type[Double]] = {}
"""By the check that has to find it, without the kind of who is certified."""


def bug(check: str) -> Callable[[type[Any]], type[Any]]:
    def add(kind: type[Any]) -> type[Any]:
        assert check not in BUGS, check
        BUGS[check] = kind
        return kind

    return add


class Verifying(Double):
    """Verifies in small steps of its own."""

    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        try:
            stamp, given = headers["webhook-timestamp"], headers["webhook-signature"]
            if not self.in_time(int(stamp), time.time()):
                return "too late or too early"
            texts = self.texts(headers["webhook-id"], stamp, body)
        except (KeyError, ValueError):
            return self.incomplete(headers)
        rights = [
            base64.b64encode(hmac.digest(signing_key(SECRET), text, "sha256")).decode() for text in texts
        ]
        good = any(self.same(right, one) for right in rights for one in self.entries(given))
        return None if good else "no signature is right"

    def incomplete(self, headers: Mapping[str, str]) -> str | None:
        return "a header is missing"

    def in_time(self, stamp: int, now: float) -> bool:
        return abs(now - stamp) < TOLERANCE

    def texts(self, webhook_id: str, stamp: str, body: bytes) -> list[bytes]:
        return [f"{webhook_id}.{stamp}.".encode() + self.read_body(body)]

    def read_body(self, body: bytes) -> bytes:
        return body

    def entries(self, header: str) -> list[str]:
        return [part[3:] for part in header.split(" ") if part.startswith("v1,")]

    def same(self, right: str, given: str) -> bool:
        return hmac.compare_digest(right, given)


# --- signatures -----------------------------------------------------------------------------------


@bug("signature.accepted")
class BelievesNothing(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return "no"


@bug("signature.missing-refused")
class NeedsNoSignature(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return super().fault_of(headers, body) if "webhook-signature" in headers else None


@bug("signature.wrong-key-refused")
class ComparesNothing(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return None if "webhook-signature" in headers else "missing"


@bug("signature.altered-timestamp-refused")
class RoundsTheTime(Verifying):
    def texts(self, webhook_id: str, stamp: str, body: bytes) -> list[bytes]:
        around = range(int(stamp) - 65, int(stamp) + 1)
        return [f"{webhook_id}.{second}.".encode() + body for second in around]


@bug("signature.stale-refused")
class TakesOldOnes(Verifying):
    def in_time(self, stamp: int, now: float) -> bool:
        return stamp < now + TOLERANCE


@bug("signature.future-refused")
class TakesFutureOnes(Verifying):
    def in_time(self, stamp: int, now: float) -> bool:
        return stamp > now - TOLERANCE


@bug("signature.no-timestamp-refused")
class NeedsNoTimestamp(Verifying):
    def incomplete(self, headers: Mapping[str, str]) -> str | None:
        return None if "webhook-timestamp" not in headers else "incomplete"


@bug("signature.other-version-refused")
class TakesAnyVersion(Verifying):
    def entries(self, header: str) -> list[str]:
        return [part.partition(",")[2] for part in header.split(" ") if "," in part]


@bug("signature.bare-refused")
class NeedsNoPrefix(Verifying):
    def entries(self, header: str) -> list[str]:
        return [part.removeprefix("v1,") for part in header.split(" ")]


@bug("signature.shortened-refused")
class ComparesTheBeginning(Verifying):
    def same(self, right: str, given: str) -> bool:
        return given != "" and right.startswith(given)


@bug("signature.empty-refused")
class TakesNothingForRight(Verifying):
    def same(self, right: str, given: str) -> bool:
        return given in {right, ""}


@bug("signature.several-wrong-refused")
class CountsThem(Verifying):
    def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
        many = len(self.entries(headers.get("webhook-signature", ""))) > 1
        return None if many else super().fault_of(headers, body)


@bug("signature.rotation-first")
class ReadsTheLastAlone(Verifying):
    def entries(self, header: str) -> list[str]:
        return super().entries(header)[-1:]


@bug("signature.rotation-second")
class ReadsTheFirstAlone(Verifying):
    def entries(self, header: str) -> list[str]:
        return super().entries(header)[:1]


@bug("signature.unknown-version-ignored")
class KnowsOneVersion(Verifying):
    def entries(self, header: str) -> list[str]:
        known = all(part.startswith("v1,") for part in header.split(" "))
        return super().entries(header) if known else []


@bug("signature.bytes-as-sent")
class VerifiesWhatItParsed(Verifying):
    def read_body(self, body: bytes) -> bytes:
        try:
            return json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()
        except ValueError:
            return body


# --- transport ------------------------------------------------------------------------------------


class Chokes(Verifying):
    """Fails at requests of one kind."""

    status = 500

    async def take(self, request: web.Request) -> web.StreamResponse:
        if self.at(request, await request.read()):
            return web.Response(status=self.status)
        return await super().take(request)

    def at(self, request: web.Request, body: bytes) -> bool:
        raise NotImplementedError


def chokes(check: str, at: Callable[[Any, web.Request, bytes], bool]) -> None:
    bug(check)(type("Choking", (Chokes,), {"at": at}))


chokes("transport.charset", lambda _, request, __: "charset" in request.headers["Content-Type"])
chokes(
    "transport.header-case",
    lambda _, request, __: any(name == b"WEBHOOK-ID" for name, _ in request.raw_headers),
)
chokes("transport.no-json", lambda _, __, body: body.startswith(b"{") and not body.endswith(b"}"))
chokes("transport.other-json", lambda _, __, body: body.startswith(b"["))
chokes("transport.empty-body", lambda _, __, body: body == b"")

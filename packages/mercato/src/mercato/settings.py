"""The settings: one frozen value, which `load` reads from `MERCATO_…` variables, beside those that the tools read, too.

Each field's description is its documentation; `docs/reference/settings.md` is generated from here.
"""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from mercato_contract.texts import Secret
from mercato_tools import settings
from mercato_tools.settings import Bytes, IngestSettings, MiB, Seconds, SettingsError, doc

__all__ = ["MiB", "Settings", "SettingsError", "load"]

Positive = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Days = Annotated[int, Meta(ge=1, le=36_500)]
"""Counts and days are bounded, because numbers in databases and calendars are."""

Port = Annotated[int, Meta(ge=1, le=65535)]


class Settings(IngestSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set. The defaults run a whole network on one machine."""

    data_dir: Annotated[
        Path, doc("The directory of the embedded database and the generated encryption key.")
    ] = Path("data")
    database_url: Annotated[
        Secret | None,
        doc("`postgresql://user:password@host/name`; without it SQLite in the data directory."),
    ] = None
    database_replica_url: Annotated[
        Secret | None,
        doc("A replica of a PostgreSQL database: discovery and catalogs are read there while it keeps up."),
    ] = None
    database_pool: Annotated[
        int,
        doc(
            "Connections of one process for reading; on PostgreSQL as many again for writing, and one to listen.",
            ge=1,
            le=500,
        ),
    ] = 10
    database_pool_seconds: Annotated[
        Seconds, doc("Seconds a request waits for one of these connections before it is answered 503.")
    ] = 5.0
    database_statement_seconds: Annotated[
        float,
        doc(
            "Seconds PostgreSQL may work on one statement; after 2 more the connection counts as lost.",
            gt=0,
            le=30,
        ),
    ] = 15.0
    database_lock_seconds: Annotated[
        Seconds, doc("Seconds a statement waits for a lock; on SQLite, for another process that writes.")
    ] = 5.0
    host: Annotated[str, doc("The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, doc("The port to listen on; 0 takes a free one.", ge=0, le=65535)] = 8000
    workers: Annotated[int, doc("Processes of `serve`, each with API and background work.", ge=1, le=64)] = 1
    console_pictures: Annotated[
        bool,
        doc(
            "Whether partners see pictures of items in the console: their browsers load them from the addresses in "
            "catalogs."
        ),
    ] = True
    public_url: Annotated[
        str | None,
        doc(
            "The service's address as clients see it, for links and the `type` of problems; else taken from the "
            "request. It may have a path, which the proxy removes from requests. Passkeys need it, except on the "
            "service's own machine."
        ),
    ] = None
    trusted_proxies: Annotated[
        str | None,
        doc(
            "Addresses and networks (`10.0.0.0/8, 2001:db8::1`) of the proxies in front. The client's address is taken "
            "from their `X-Forwarded-For` or `Forwarded` alone."
        ),
    ] = None
    cors_origins: Annotated[
        str | None,
        doc(
            "Origins (`https://shop.example.com`, comma-separated) whose pages may call the Marketfront surface and "
            "`/mcp` from a browser. A storefront's key belongs on its server: everybody who opens such a page can read "
            "its key."
        ),
    ] = None
    encryption_keys: Annotated[
        Secret | None,
        doc(
            "Keys (32 bytes, base64url, comma-separated) for secrets at rest: the first encrypts, all decrypt. "
            "A new key goes behind the old one first, and in front once every process has it. "
            "Without it one is generated into the data directory: enough for one machine."
        ),
    ] = None

    rate_limits: Annotated[bool, doc("`off` turns all rate limits off.")] = True
    rate_limit_reads: Annotated[
        Positive, doc("Reads a minute for each partner; each live store adds 12.")
    ] = 1000
    rate_limit_writes: Annotated[
        Positive, doc("Writes a minute for each partner; each live store adds 6.")
    ] = 100
    rate_limit_discovery: Annotated[Positive, doc("Discovery requests a minute for each partner.")] = 60

    stored_bytes_per_day: Annotated[
        int,
        doc(
            "Bytes that a partner may store in a day (UTC): a storefront by orders, and by validations that a store "
            "does not answer; a merchant by new CatalogSets. Above it, 429 until midnight. 0: no limit.",
            ge=0,
            le=2**50,
        ),
    ] = 4096 * MiB

    redis_url: Annotated[
        Secret | None,
        doc(
            "`redis://host:6379/0` of a Redis or Valkey: rate limits are counted by all servers together. "
            "Needs the extra `mercato[redis]`. Without it each server counts its share."
        ),
    ] = None

    body_limit: Annotated[Bytes, doc("Bytes a request body may have.")] = MiB
    body_memory: Annotated[
        Bytes,
        doc(
            "Bytes of request bodies that one process holds in memory at a time. One partner may hold a quarter of "
            "them, and so may one address that sends no key."
        ),
    ] = 64 * MiB
    body_seconds: Annotated[Seconds, doc("Seconds a request body may take to arrive.")] = 15.0

    build_memory: Annotated[
        int,
        doc(
            "Bytes of memory for the process that checks and builds large catalogs: one at a time, with "
            "5 to 20 times the catalog's size. A catalog that needs more fails its run.",
            ge=64 * MiB,
            le=2**40,
        ),
    ] = 448 * MiB
    ingest_concurrency: Annotated[Positive, doc("Catalog runs at the same time, over all partners.")] = 8
    ingest_concurrency_per_partner: Annotated[
        Positive, doc("Catalog runs of one partner at the same time.")
    ] = 2
    ingest_waiting_per_store: Annotated[Positive, doc("Catalog runs of a store that may wait.")] = 10
    catalog_retention_days: Annotated[Days, doc("Days a superseded CatalogSet stays readable.")] = 30

    validate_seconds: Annotated[Seconds, doc("Seconds a store's validate webhook may take.")] = 5.0
    place_seconds: Annotated[Seconds, doc("Seconds all calls of one request to place an order may take.")] = (
        15.0
    )
    place_resend_seconds: Annotated[
        float,
        doc(
            "Seconds an order is sent again to a store that doesn't answer, before it is cancelled.",
            gt=0,
            le=86_400,
        ),
    ] = 600.0
    resend_concurrency: Annotated[
        Positive,
        doc(
            "Orders that one process resends at the same time: this many first attempts, "
            "and this many later ones. A partner gets at most half."
        ),
    ] = 64

    webhook_seconds: Annotated[Seconds, doc("Seconds an event delivery may take.")] = 15.0
    delivery_concurrency: Annotated[Positive, doc("Webhook deliveries at the same time.")] = 32
    delivery_concurrency_per_partner: Annotated[
        Positive, doc("Webhook deliveries of one partner at the same time, over all workers.")
    ] = 8
    delivery_retention_days: Annotated[Days, doc("Days webhook deliveries and attempts are kept.")] = 30

    run_retention_days: Annotated[
        Days, doc("Days catalog runs are kept; the newest of an onboarding or store always is.")
    ] = 30
    customer_data_days: Annotated[
        Days,
        doc(
            "Days an order keeps its customer's data; after that it stays without them. Orders can be scheduled 60 "
            "days ahead: with fewer days, some lose their customer before they are due."
        ),
    ] = 90

    audit_retention_days: Annotated[Days, doc("Days entries of the audit trail are kept.")] = 365

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], doc("The least severe level that is logged.")
    ] = "info"
    log_format: Annotated[
        Literal["json", "console", "auto"], doc("`auto`: console on a terminal, else json.")
    ] = "auto"
    request_log: Annotated[
        Literal["off", "notable", "all"],
        doc(
            "Requests with a log line: `notable` are refusals, slow requests and those that count as writes. "
            "Refused requests can be listed with any value."
        ),
    ] = "notable"
    slow_ms: Annotated[
        int, doc("Milliseconds from which the request log counts a request as slow.", ge=1)
    ] = 500
    metrics_port: Annotated[
        Port | None,
        doc(
            "A port for `/metrics` alone, on the same address; where it is taken, the first free one after it. "
            "For `mercato worker`, which serves nothing else."
        ),
    ] = None
    traces_endpoint: Annotated[
        str | None,
        doc("The endpoint for traces, by OTLP over HTTP, as `http://collector:4318`; needs `mercato[otel]`."),
    ] = None
    traces_share: Annotated[
        float, doc("The share of traces that begin here and are exported, from 0 to 1.", ge=0, le=1)
    ] = 1.0
    metrics_token: Annotated[
        Secret | None, doc("Bearer token of `/metrics`; without it only a loopback address serves them.")
    ] = None

    oidc_issuer: Annotated[
        str | None,
        doc(
            "`https://login.example.com/realm`: the OpenID Connect provider that signs operators in to the console. "
            "Needs the extra `mercato[oidc]`, the client's id and secret, and who may sign in."
        ),
    ] = None
    oidc_client_id: Annotated[str | None, doc("The id that the provider gave this service.")] = None
    oidc_client_secret: Annotated[Secret | None, doc("The secret that belongs to the client's id.")] = None
    oidc_scope: Annotated[
        str, doc("Scopes that the provider is asked for; some providers need another one for groups.")
    ] = "openid email"
    oidc_operators: Annotated[
        str | None,
        doc(
            "Who may sign in as an operator: e-mail addresses that the provider has verified, and `claim=value` of the "
            "ID token (`anna@example.com, groups=operators`). Nobody by default."
        ),
    ] = None
    oidc_support: Annotated[str | None, doc("Who may sign in with the role Support, in the same form.")] = (
        None
    )
    oidc_viewers: Annotated[str | None, doc("Who may sign in with read-only access, in the same form.")] = (
        None
    )

    @property
    def has_sign_on(self) -> bool:
        """Whether a setting of single sign-on is set, which needs the others."""
        needed = (self.oidc_issuer, self.oidc_client_id, self.oidc_client_secret)
        people = (self.oidc_operators, self.oidc_support, self.oidc_viewers)
        return any(name is not None for name in (*needed, *people))


_URLS: Final = {
    "database_url": ("postgresql://user:password@host/name", r"[a-z][a-z0-9+]*://.*"),
    "database_replica_url": ("postgresql://user:password@host/name", r"[a-z][a-z0-9+]*://.*"),
    "redis_url": ("redis://host:6379/0", r"(rediss?|unix)://.+"),
    "public_url": ("https://api.example.com", r"https?://[^\s/?#@]+(/[^\s?#]*)?"),
    "oidc_issuer": ("https://login.example.com/realm", r"https?://[^\s/?#@]+(/[^\s?#]*)?"),
    "traces_endpoint": ("http://collector:4318", r"https?://[^\s/?#]+(/[^\s?#]*)?"),
}
"""URLs: an example, and a pattern that reports a malformed one at the start rather than at its first use."""


def load(environment: Mapping[str, str], **overrides: Any) -> Settings:
    """Return the settings of `MERCATO_…` variables; `overrides` that aren't None come from the command line.

    Raises SettingsError that lists every unknown name and every invalid value.
    """
    return settings.load(Settings, environment, fault_of=_fault_of, all_are_known=True, **overrides)


def _fault_of(name: str, value: Any) -> str | None:
    """Return what is wrong with a URL or a list, None if nothing is."""
    if name in _URLS:
        example, pattern = _URLS[name]
        text = value.reveal() if isinstance(value, Secret) else value
        return None if re.fullmatch(pattern, text, re.IGNORECASE) else f"Write it as {example}."
    if name in _LIST_CHECKS:
        faults = [fault for entry in value.split(",") if (fault := _LIST_CHECKS[name](entry.strip()))]
        return " ".join(faults) or None
    return None


def _network_fault(text: str) -> str | None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return f"{text!r} is neither an address nor a network. Write them as 10.0.0.0/8, 2001:db8::1."
    return None


def _origin_fault(text: str) -> str | None:
    if re.fullmatch(r"https?://[^\s/?#@,*]+", text):
        return None
    return f"{text!r} is not an origin. Write it as https://shop.example.com, without a path."


_LIST_CHECKS: Final = {"trusted_proxies": _network_fault, "cors_origins": _origin_fault}
"""Return what is wrong with an entry of a comma-separated list, None if nothing is."""

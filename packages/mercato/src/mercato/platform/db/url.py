"""Addresses of databases: which one the settings name, and how the drivers read it."""

import re
from pathlib import Path
from typing import Final, Protocol

from sqlalchemy import URL, exc, make_url

from mercato.platform.db.errors import UnusableUrl
from mercato_contract.texts import Secret

FILE: Final = "mercato.db"
"""The embedded database in the data directory."""


class DatabaseSettings(Protocol):
    """What the settings say about the database. Durations are in seconds."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def database_url(self) -> Secret | None: ...
    @property
    def database_replica_url(self) -> Secret | None: ...
    @property
    def database_pool(self) -> int: ...
    @property
    def database_pool_seconds(self) -> float: ...
    @property
    def database_lock_seconds(self) -> float: ...
    @property
    def database_statement_seconds(self) -> float: ...


def database_url(settings: DatabaseSettings) -> str:
    """Return the URL for `Database.open` and `migrate`: the setting, else SQLite in the data directory."""
    if settings.database_url is not None:
        return settings.database_url.reveal()
    return f"sqlite:///{settings.data_dir.absolute() / FILE}"


def is_postgresql(url: str) -> bool:
    return url.startswith(("postgresql:", "postgresql+asyncpg:", "postgres:"))


def sqlite_path(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute` or a plain path. Raises UnusableUrl."""
    scheme, found, rest = url.partition("://")
    if found and not (scheme in {"sqlite", "sqlite+aiosqlite"} and rest.startswith("/")):
        raise UnusableUrl(f"MERCATO_DATABASE_URL starts with sqlite:/// or postgresql://, not {scheme}://.")
    return Path(rest[1:] if found else url)


_SEVERAL_HOSTS: Final = re.compile(
    r"(\w[\w+]*://(?:[^/?#@]*@)?)([^/?#@]*,[^/?#@]*)(/[^?#]*)?(?:\?(.*))?", re.DOTALL
)
"""A URL with several hosts before its path, as libpq takes them: `postgresql://user@a:5432,b:5432/name`."""


def sqlalchemy_url(url: str) -> URL:
    """Return the URL, parsed; several hosts are among its options.

    Raises UnusableUrl, which doesn't repeat the URL: a misread part may be the password.
    """
    if several := _SEVERAL_HOSTS.fullmatch(url):
        login, hosts, path, options = several.groups()
        url = f"{login}{path or '/'}?host={hosts}{'&' if options else ''}{options or ''}"
    try:
        parsed = make_url(url)
    except (ValueError, exc.ArgumentError):
        raise UnusableUrl(
            "The address of the database cannot be read. Write it as postgresql://user:password@host:5432/name; "
            "in a password %40 stands for @, %3A for : and %2F for /."
        ) from None
    return parsed.set(drivername="postgresql+asyncpg")


def driver_url(url: str) -> str:
    """Return the URL as asyncpg reads it, whose options are those of libpq (`sslmode`, `sslrootcert`)."""
    return _driver_url(sqlalchemy_url(url))


def _driver_url(parsed: URL) -> str:
    # SQLAlchemy lets an option be given more than once: several hosts, one of which is the primary.
    query = {
        "sslmode" if name == "ssl" else name: value if isinstance(value, str) else ",".join(value)
        for name, value in parsed.query.items()
    }
    return parsed.set(drivername="postgresql", query=query).render_as_string(hide_password=False)


def hosts_of(url: str) -> list[str]:
    """Return the hosts of a PostgreSQL URL, with their ports if these stand beside them."""
    return _hosts(sqlalchemy_url(url))


def _hosts(parsed: URL) -> list[str]:
    # One host before the path goes before those among the options, as in the driver.
    return [parsed.host] if parsed.host is not None else _options(parsed, "host")


def server_urls(url: str, default_target: str) -> list[str]:
    """Return a URL of the driver for each server, in their order.

    Of several, those with the URL's `target_session_attrs` are meant, or with the default.
    """
    parsed = sqlalchemy_url(url)
    hosts, ports = _hosts(parsed), _options(parsed, "port")
    if len(hosts) <= 1:
        return [_driver_url(parsed)]
    if len(ports) != len(hosts):
        ports = ports[:1] * len(hosts)
    target = (_options(parsed, "target_session_attrs") or [default_target])[0]
    # A standby, if one answers: else any other.
    targets = ["standby", "any"] if target == "prefer-standby" else [target]
    urls = []
    for number, host in enumerate(hosts):
        port = {"port": ports[number]} if ports else {}
        urls.append(parsed.update_query_dict({"host": host, **port}))
    return [
        _driver_url(address.update_query_dict({"target_session_attrs": session}))
        for session in targets
        for address in urls
    ]


def _options(url: URL, name: str) -> list[str]:
    return [host for value in url.normalized_query.get(name, ()) for host in value.split(",")]

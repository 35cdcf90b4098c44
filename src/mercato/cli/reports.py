"""Signed reports of certifications: written, and verified."""

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from mercato import clock
from mercato.certify.report import (
    MAX_BYTES,
    Counts,
    Outcome,
    Report,
    SignedReport,
    UnreadableError,
    count,
    public_keys,
    verify,
)
from mercato.cli import FAILED
from mercato.cli.failures import UnusableError
from mercato.cli.plain import folded, say
from mercato.cli.sources import read_file
from mercato.db.migrate import find_revision
from mercato.db.url import FILE as DATABASE
from mercato.db.url import open_database
from mercato.partners.queries import find_newest_secret
from mercato.partners.vault import FILE, Vault, load_keys
from mercato.plurals import count_of
from mercato.settings import Settings, load
from mercato.wire import instant

GIVEN: Final = ("MERCATO_URL", "MERCATO_KEY", "MERCATO_STORE_ID")
"""Variables that a storefront under certification gets: they aren't settings of the service."""


def vault(data_dir: Path | None) -> Vault:
    """Return the vault whose key signs reports: that of the settings, else of the data directory."""
    environment = {name: text for name, text in os.environ.items() if name not in GIVEN}
    settings = load(environment, data_dir=data_dir)
    keys = settings.encryption_keys
    if keys is not None:
        return Vault(load_keys(keys.reveal(), None))
    return Vault(load_keys(None, settings.data_dir, sealed=asyncio.run(_sealed(settings))))


async def _sealed(settings: Settings) -> bytes | None:
    """Return a secret of a database whose key is missing: then no new key is made."""
    if (settings.data_dir / FILE).exists():
        return None
    if settings.database_url is None and not (settings.data_dir / DATABASE).exists():
        return None
    async with open_database(settings) as db, db.read() as tx:
        found = None if await find_revision(tx) is None else await find_newest_secret(tx)
    return None if found is None else found[1]


def report_of(kind: str, target: str, began: datetime, outcomes: Sequence[Outcome]) -> Report:
    """Return the report of a certification that ends now."""
    return Report(
        kind=kind,
        target=target,
        version=version("mercato"),
        started_at=instant(began) or "",
        finished_at=instant(clock.now()) or "",
        counts=count(outcomes),
        checks=tuple(outcomes),
    )


def write(signed: SignedReport, file: Path) -> None:
    """Write a signed report. Raises UnusableError."""
    text = msgspec.json.format(msgspec.json.encode(signed), indent=2)
    try:
        file.write_bytes(text + b"\n")
    except OSError as error:
        raise UnusableError(f"The report cannot be written to {file}: {error.strerror}.") from None


def check_writable(file: Path) -> None:
    """Check that a report can be written before all the work. Raises UnusableError."""
    if file.is_dir():
        raise UnusableError(f"{file} is a directory. Name a file in it.")
    if not file.absolute().parent.is_dir():
        raise UnusableError(f"There is no directory {file.absolute().parent}.")


def look_at(file: str, *, public_key: str | None, data_dir: Path | None) -> int:
    """Verify a signed report, print the result and return the exit code."""
    document = read_file(file, most=MAX_BYTES + 1)
    if len(document) > MAX_BYTES:
        raise UnusableError(f"{file} has more than {MAX_BYTES:,} bytes: it isn't a report.")
    try:
        found = verify(document, trusted=(public_key,) if public_key else public_keys(vault(data_dir)))
    except UnreadableError as error:
        raise UnusableError(f"{file}: {error}") from None
    if found.report is None:
        say(
            "NOT VALID",
            *folded(
                f"The report was changed after it was signed, or another key than {found.fingerprint} signed it."
            ),
        )
        return FAILED
    report = found.report
    ours = found.is_trusted
    lacking = _lacking(report.counts)
    say("NOT TRUSTED" if not ours else "NOT CERTIFIED" if lacking else "VALID")
    say(
        f"  {report.kind}{' at' if report.target.startswith('http') else ':'} {report.target}",
        f"  {report.started_at}, mercato {report.version}",
        f"  {report.counts.passed} passed, {report.counts.failed} failed, {report.counts.skipped} skipped",
        f"  key {found.fingerprint}",
    )
    if ours:
        whose = "the owner of the key that you gave" if public_key else "this installation"
        say(*folded(f"Nothing was changed since {whose} signed it."))
        if lacking is None:
            return 0
        say(*folded(lacking))
        return FAILED
    say(
        *folded(
            "Nothing was changed since it was signed, but anybody may have signed it: the key is not this "
            "installation's. If you know whose it is, give its public key with --public-key."
        )
    )
    return FAILED


def _lacking(counts: Counts) -> str | None:
    """Return why a report certifies nothing, if it doesn't."""
    if counts.failed:
        failed = count_of(counts.failed, "check")
        return f"But {failed} failed. Fix what the report says of each, then certify again."
    if not counts.passed:
        return "But no check passed. The report says why each was skipped."
    return None

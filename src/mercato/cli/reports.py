"""Signed reports of certifications: written, and looked at again."""

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from mercato import clock
from mercato.certify.model import Counts, Outcome, Report, counted
from mercato.certify.signed import MOST_BYTES, SignedReport, Trust, public_keys, verify
from mercato.certify.signed import UnreadableError as NoReport
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
"""Names that a storefront under certification is started with: no settings of the service."""


def vault(data_dir: Path | None) -> Vault:
    """Return the vault whose key signs reports: that of the settings, else of the data directory."""
    environment = {name: text for name, text in os.environ.items() if name not in GIVEN}
    settings = load(environment, data_dir=data_dir)
    keys = settings.encryption_keys
    if keys is not None:
        return Vault(load_keys(keys.reveal(), None))
    return Vault(load_keys(None, settings.data_dir, sealed=asyncio.run(_sealed(settings))))


async def _sealed(settings: Settings) -> bytes | None:
    """Return a secret of the database whose key is not there any more: in its place none is made by us, either."""
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
        counts=counted(tuple(outcomes)),
        checks=tuple(outcomes),
    )


def write(signed: SignedReport, file: Path) -> None:
    """Write a signed report. Raises UnusableError when it can't be."""
    text = msgspec.json.format(msgspec.json.encode(signed), indent=2)
    try:
        file.write_bytes(text + b"\n")
    except OSError as error:
        raise UnusableError(f"The report cannot be written to {file}: {error.strerror}.") from None


def check_writable(file: Path) -> None:
    """Say at once that a report could not be written, and not after all the work. Raises UnusableError."""
    if file.is_dir():
        raise UnusableError(f"{file} is a directory. Name a file in it.")
    if not file.absolute().parent.is_dir():
        raise UnusableError(f"There is no directory {file.absolute().parent}.")


def look_at(file: str, *, public_key: str | None, data_dir: Path | None) -> int:
    """Print what a signed report is worth, and return the exit code."""
    document = read_file(file, most=MOST_BYTES + 1)
    if len(document) > MOST_BYTES:
        raise UnusableError(f"{file} has more than {MOST_BYTES:,} bytes: it is no report.")
    try:
        found = verify(document, trusted=(public_key,) if public_key else public_keys(vault(data_dir)))
    except NoReport as error:
        raise UnusableError(f"{file}: {error}") from None
    if found.report is None:
        say(
            "NOT VALID",
            *folded(
                f"The report was changed after it was signed, or the signature is not {found.fingerprint}'s."
            ),
        )
        return FAILED
    report = found.report
    ours = found.trust is Trust.OURS
    lacking = _lacking(report.counts)
    say("NOT TRUSTED" if not ours else "NOT CERTIFIED" if lacking else "VALID")
    say(
        f"  {report.kind}{' at' if report.target.startswith('http') else ':'} {report.target}",
        f"  {report.started_at}, mercato {report.version}",
        f"  {report.counts.passed} passed, {report.counts.failed} failed, {report.counts.skipped} skipped",
        f"  key {found.fingerprint}",
    )
    if ours:
        whose = "the key that you gave" if public_key else "this installation"
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

"""The signed report of a certification: the key that signs it, and `mercato certify verify`."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from msgspec import Struct

from mercato import app
from mercato.features.certification.report import (
    MAX_BYTES,
    UnreadableReportError,
    Verified,
    fingerprint,
    public_keys,
    sign,
)
from mercato.features.certification.report import verify as verify_report
from mercato.features.partners.encryption import find_sealed
from mercato.features.partners.vault import FILE, Vault, load_keys
from mercato.features.schema import SCHEMA
from mercato.platform.db.migrate import find_revision
from mercato.platform.db.url import FILE as DATABASE
from mercato.settings import Settings, load
from mercato_contract.certification import (
    Counts,
    Report,
    SignedReport,
)
from mercato_contract.texts import count_of
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.certify_report import counts_text
from mercato_tools.cli.inputs import read_file
from mercato_tools.cli.options import DataDir
from mercato_tools.cli.output import (
    note,
    say,
    wrap,
)

OTHERS_SETTINGS: Final = ("MERCATO_URL", "MERCATO_KEY", "MERCATO_STORE_ID")
"""Variables passed to a storefront under certification: not settings of the service."""

DATA_DIR: Final = "MERCATO_DATA_DIR"


class Signer(Struct, frozen=True):
    """The vault whose key signs reports, and where that key is."""

    vault: Vault
    source: str

    def sign(self, report: Report) -> SignedReport:
        return sign(report, self.vault)

    def __str__(self) -> str:
        return f"the key {fingerprint(public_keys(self.vault)[0])} of {self.source}"


def get_signer(data_dir: Path | None) -> Signer:
    """Return the signer of the settings or the data directory.

    A key is created, with a note, only in a directory that was given. Raises UnusableError, VaultError.
    """
    settings = _settings(data_dir)
    signer = _find_signer(settings)
    if signer is not None:
        return signer
    if data_dir is None and DATA_DIR not in os.environ:
        raise UnusableError(
            f"There is no key to sign the report with: {settings.data_dir / FILE} doesn't exist. "
            "Name the data directory of your installation with --data-dir, or give --unsigned."
        )
    path = settings.data_dir / FILE
    vault = Vault(load_keys(None, settings.data_dir, sealed=asyncio.run(_find_sealed(settings))))
    note(f"Created a new encryption key, {path}, to sign the report.")
    return Signer(vault, str(path))


def _settings(data_dir: Path | None) -> Settings:
    environment = {name: text for name, text in os.environ.items() if name not in OTHERS_SETTINGS}
    return load(environment, data_dir=data_dir)


def _find_signer(settings: Settings) -> Signer | None:
    """Return the signer of an existing key. Raises VaultError."""
    keys = settings.encryption_keys
    if keys is not None:
        return Signer(Vault(load_keys(keys.reveal(), None)), "MERCATO_ENCRYPTION_KEYS")
    path = settings.data_dir / FILE
    return Signer(Vault(load_keys(None, settings.data_dir)), str(path)) if path.exists() else None


async def _find_sealed(settings: Settings) -> bytes | None:
    """Return a secret of the database, whose key is missing: a new one must not be made in the key's place."""
    if settings.database_url is None and not (settings.data_dir / DATABASE).exists():
        return None
    async with app.opened(settings) as core, core.db.read() as tx:
        revision = await find_revision(tx)
        found = None if revision is None else await find_sealed(tx, has_text=revision == SCHEMA.head)
    return None if found is None else found.content


def verify(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    public_key: str | None = None,
    data_dir: DataDir = None,
) -> int:
    """Check the signature of a report, and say who signed it.

    Exit code 0: this installation or the given key signed it, and no check failed; 1: another key signed it, it was
    changed, or a check failed; 2: the file isn't a report.

    Args:
        file: A signed report, or - for standard input.
        public_key: The public key of the signer, as reports show it; else this installation's.

    """
    document = read_file(file, max_bytes=MAX_BYTES + 1)
    if len(document) > MAX_BYTES:
        raise UnusableError(f"{file} has more than {MAX_BYTES:,} bytes: it isn't a report.")
    signer = None if public_key else _find_signer(_settings(data_dir))
    trusted = (public_key,) if public_key else () if signer is None else public_keys(signer.vault)
    try:
        found = verify_report(document, trusted=trusted)
    except UnreadableReportError as error:
        raise UnusableError(f"{file}: {error}") from None
    if public_key:
        return _print_verdict(
            found, "the owner of the key that you gave", "the key isn't the one that you gave"
        )
    no_key = f"there is no key in {_settings(data_dir).data_dir} to compare it with"
    return _print_verdict(
        found, "this installation", no_key if signer is None else "the key isn't this installation's"
    )


def _print_verdict(found: Verified, trusted_signer: str, otherwise: str) -> int:
    """Print who signed the report and whether it is a certification; return the exit code."""
    report = found.report
    if report is None:
        reason = (
            f"The report was changed after it was signed, or another key than {found.fingerprint} signed it."
        )
        say("NOT VALID", *wrap(reason))
        return FAILED
    lacking = _why_uncertified(report.counts)
    say("NOT TRUSTED" if not found.is_trusted else "NOT CERTIFIED" if lacking else "VALID")
    say(
        f"  {report.kind}{' at' if report.target.startswith('http') else ':'} {report.target}",
        f"  {report.started_at}, mercato {report.version}",
        f"  {counts_text(report.counts)}",
        f"  key {found.fingerprint}",
    )
    if not found.is_trusted:
        say(
            *wrap(
                f"Nothing was changed since it was signed, but anyone may have signed it: {otherwise}. "
                "If you know whose it is, give its public key with --public-key."
            )
        )
        return FAILED
    say(*wrap(f"Nothing was changed since {trusted_signer} signed it."), *(wrap(lacking) if lacking else ()))
    return FAILED if lacking else 0


def _why_uncertified(counts: Counts) -> str | None:
    """Return why the report isn't a certification, or None if it is."""
    if counts.failed:
        failed = count_of(counts.failed, "check")
        return f"But {failed} failed. Fix what the report says about each, then certify again."
    return None if counts.passed else "But no check passed. The report says why each was skipped."

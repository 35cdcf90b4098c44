"""Certification on the screen, and its signed report: written and verified."""

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter
from msgspec import Struct

from mercato import app
from mercato.cli import FAILED, UnusableError
from mercato.cli.inputs import read_file
from mercato.cli.options import DataDir
from mercato.cli.output import finding, indented, note, print_json, sanitize, say, truncate, view, width, wrap
from mercato.features.certification.report import (
    MAX_BYTES,
    UnreadableReportError,
    Verified,
    fingerprint,
    public_keys,
    sign,
)
from mercato.features.certification.report import verify as verify_report
from mercato.features.partners.queries import find_newest_secret
from mercato.features.partners.vault import FILE, Vault, load_keys
from mercato.platform.db.migrate import find_revision
from mercato.platform.db.url import FILE as DATABASE
from mercato.settings import Settings, load
from mercato.tools.certify.suite import Check, Suite
from mercato_contract import clock
from mercato_contract.certification import (
    CheckOutcome,
    Counts,
    Exchange,
    Report,
    SignedReport,
    UnsignedReport,
    Verdict,
    count,
)
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire, instant

MAX_LINES: Final = 14
"""Lines shown of a message; reports have all of it."""

OTHERS_SETTINGS: Final = ("MERCATO_URL", "MERCATO_KEY", "MERCATO_STORE_ID")
"""Variables passed to a storefront under certification: not settings of the service."""

DATA_DIR: Final = "MERCATO_DATA_DIR"

_MARKS: Final = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL", Verdict.SKIPPED: "skip"}
_NAME: Final = 27


class CheckDisplay:
    """Prints outcomes group by group; meaning never depends on colour."""

    def __init__(self, suite: Suite[Any]) -> None:
        self._suite = suite
        self._group = ""
        self._pending: list[CheckOutcome] = []
        """The first checks of a group, while all are skipped for the same reason."""

    def show(self, outcome: CheckOutcome) -> None:
        """Print a check's line under the heading of its group; a group skipped as a whole has one line."""
        group = outcome.id.rpartition(".")[0]
        is_first = group != self._group
        if is_first:
            self._print_pending()
            say("", *wrap(self._suite.headings[group]))
        self._group = group
        pending = self._pending
        if outcome.verdict is Verdict.SKIPPED and (is_first or (pending and pending[0].seen == outcome.seen)):
            pending.append(outcome)
            return
        say(*map(_line, (*pending, outcome)))
        pending.clear()

    def _print_pending(self) -> None:
        pending, self._pending = self._pending, []
        say(
            *(
                [f"  {_MARKS[Verdict.SKIPPED]}  all {len(pending)}"]
                if len(pending) > 1
                else map(_line, pending)
            )
        )

    def end(self, outcomes: Sequence[CheckOutcome]) -> None:
        """Print the failed and skipped checks, and the counts."""
        self._print_pending()
        failed = [outcome for outcome in outcomes if outcome.verdict is Verdict.FAIL]
        if failed:
            say("", "What failed, and what to do:")
        for outcome in failed:
            say(
                "",
                outcome.id,
                *wrap(outcome.title, indent="  "),
                *finding(outcome.seen, outcome.advice, indent="  "),
            )
            say(*wrap(f"A pass proves that {outcome.proves}. ({outcome.section})", indent="  "))
            if outcome.exchanges:
                _show(outcome.exchanges[-1])
        skipped: dict[str, list[str]] = {}
        for outcome in outcomes:
            if outcome.verdict is Verdict.SKIPPED:
                skipped.setdefault(outcome.seen, []).append(outcome.id)
        if skipped:
            say("", "Skipped:")
        for reason, names in skipped.items():
            first = names[0] if len(names) == 1 else f"{len(names)} checks"
            say(*wrap(reason, first=f"  {first}: ", indent="    "))
        say("", f"{_counts(count(outcomes))}.")


def _counts(counts: Counts) -> str:
    return f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"


def _line(outcome: CheckOutcome) -> str:
    name, room = outcome.id.rpartition(".")[2], width() - _NAME - 9
    return f"  {_MARKS[outcome.verdict]}  {name:<{_NAME}} {truncate(outcome.title, room)}".rstrip()


def _show(exchange: Exchange) -> None:
    for name, text in (("sent", exchange.sent), ("received", exchange.received)):
        lines = [sanitize(line) for line in text.split("\n")]
        shown = lines[:MAX_LINES] + (["…"] if len(lines) > MAX_LINES else [])
        for index, line in enumerate(shown):
            say(f"  {name if index == 0 else '':<9} {truncate(line, width() - 12)}".rstrip())


class CheckEntry(Wire):
    """A check that hasn't run."""

    id: str
    group: str
    title: str
    section: str


def print_checks(suite: Suite[Any], checks: Sequence[Check[Any]], *, json: bool) -> None:
    """Print the checks without running them."""
    if json:
        print_json({"checks": [view(CheckEntry, check) for check in checks]})
        return
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            say("", *wrap(suite.headings[group]))
        say(f"  {check.id}", *wrap(f"{check.title} ({check.section})", indent="    "))
    say("", f"{count_of(len(checks), 'check')}.")


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
        found = None if await find_revision(tx) is None else await find_newest_secret(tx)
    return None if found is None else found[1]


def report_of(kind: str, target: str, began: datetime, outcomes: Sequence[CheckOutcome]) -> Report:
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


def check_writable(file: Path) -> None:
    """Raise UnusableError for a report that can't be written: before the work, not after it."""
    if file.is_dir():
        raise UnusableError(f"{file} is a directory. Name a file in it.")
    if not file.absolute().parent.is_dir():
        raise UnusableError(f"There is no directory {file.absolute().parent}.")


def write_report(report: SignedReport | UnsignedReport, file: Path) -> None:
    """Write a report. Raises UnusableError when it can't be."""
    try:
        file.write_bytes(indented(report))
    except OSError as error:
        raise UnusableError(f"The report cannot be written to {file}: {error.strerror}.") from None


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
        f"  {_counts(report.counts)}",
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

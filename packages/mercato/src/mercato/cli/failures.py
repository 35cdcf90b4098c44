"""Messages of the operators' commands that fail: what happened and what to do."""

import os
import shlex
import sqlite3
from pathlib import Path
from typing import Final

import asyncpg

from mercato.features.partners.model import (
    AccountError,
    InactiveKeyError,
    NoStoresError,
    OpenOrdersError,
    SeveralOriginsError,
    TakenNameError,
    UnknownKeyError,
    UnknownPartnerError,
)
from mercato.features.partners.vault import VaultError
from mercato.platform.db.backup import BackupError
from mercato.platform.db.copy import CopyError
from mercato.platform.db.errors import UnusableUrl, is_unavailable
from mercato.platform.db.migrate import SchemaDiffers, SchemaIsNewer
from mercato.platform.db.search import UnknownIdError
from mercato.platform.telemetry.tracing import TracingUnavailableError
from mercato_tools.cli import UNUSABLE, UnusableError
from mercato_tools.cli.extensions import Failure
from mercato_tools.cli.failures import sentence

_UNAVAILABLE: Final = (
    "The database is busy or unavailable, so nothing was changed. Check that it is running, then try again."
)
_NAMED: Final = "The address is that of MERCATO_DATABASE_URL."
_NOT_MIGRATED: Final = (
    "The database doesn't have this version's tables. Create them, or see why: mercato migrate"
)


def no_data_dir(data_dir: Path, error: OSError) -> UnusableError:
    """Return the error for a data directory that can't be created."""
    reason = (
        "is not a directory" if isinstance(error, FileExistsError) else f"can't be created: {error.strerror}"
    )
    return UnusableError(
        f"The data directory {data_dir} {reason}. Name another with --data-dir or MERCATO_DATA_DIR."
    )


DIFFERS_ADVICE: Final = (
    "A version from before the first release made it, or somebody has changed its tables. Run the version that made "
    "it. Or keep a copy (mercato backup; pg_dump for PostgreSQL), name another data directory or MERCATO_DATABASE_URL "
    "for a new database, and register partners and stores there."
)


def explain(error: Exception) -> Failure | None:
    """Return the message for an error of the service or its database, None for any other."""
    match error:
        case UnusableUrl():
            return Failure(str(error), UNUSABLE)
        case TracingUnavailableError() | UnknownIdError() | VaultError() | BackupError() | CopyError():
            return Failure(str(error))
        case AccountError():
            return Failure(f"{error} {_next_step(error)}".rstrip())
        case SchemaIsNewer():
            return Failure(f"{sentence(str(error))} Install a newer version of mercato.")
        case SchemaDiffers():
            return Failure(f"{error} Nothing was changed. {DIFFERS_ADVICE}")
        case ConnectionError() | TimeoutError():
            return Failure(_UNAVAILABLE)
    return _of_database(error)


def _next_step(error: AccountError) -> str:
    """Return what to do about a refusal, if there is anything."""
    match error:
        case UnknownPartnerError():
            return "See them with: mercato partner list"
        case UnknownKeyError():
            return "See them with: mercato key list"
        case TakenNameError(name=name):
            return (
                "Choose another name, or create another key for that partner: "
                f"mercato key create {shlex.quote(name)}"
            )
        case InactiveKeyError(key=key):
            return f"Create a new one with: mercato key create {key.partner_id} --surface {key.surface}"
        case NoStoresError():
            return "Leave --webhook-token out: it verifies events by its signing secret."
        case SeveralOriginsError():
            return "Name the one that gets the token with --webhook-origin"
        case OpenOrdersError(partner_id=partner_id):
            return f"Complete or cancel them first: mercato order list --state open --partner {partner_id}"
    return ""


def _of_database(error: Exception) -> Failure | None:
    cause = _find_driver_error(error)
    if cause is None:
        if not is_unavailable(error):
            return None
        named = f" {_NAMED}" if "MERCATO_DATABASE_URL" in os.environ else ""
        return Failure(f"{sentence(str(error))}{named} {_UNAVAILABLE}")
    # Only the first line: the rest may quote a row's values.
    cause_text = (str(cause).splitlines() or [type(cause).__name__])[0]
    if (
        isinstance(cause, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError)
        or "no such " in cause_text
    ):
        return Failure(_NOT_MIGRATED)
    if isinstance(cause, sqlite3.IntegrityError | asyncpg.IntegrityConstraintViolationError):
        return None
    # The driver's error decides, not a DatabaseUnavailable around it: a server goes on trying whatever kept it
    # from connecting, but a person wants to know that the file is damaged or the password wrong.
    if is_unavailable(cause) and "unable to open" not in cause_text:
        return Failure(_UNAVAILABLE)
    message = f"The database cannot be used: {sentence(cause_text)}"
    if "readonly" in cause_text or "unable to open" in cause_text:
        message += " This user must be allowed to read and to write its file and its directory."
    if "not a database" in cause_text or "malformed" in cause_text:
        message += " Restore a backup: mercato restore FILE --replace"
    return Failure(message)


def _find_driver_error(error: BaseException) -> BaseException | None:
    """Return the database driver's error in the chain of causes, if any."""
    cause: BaseException | None = error
    for _ in range(5):
        if cause is None or isinstance(cause, asyncpg.PostgresError | sqlite3.Error):
            return cause
        cause = getattr(cause, "orig", None) or cause.__cause__
    return None

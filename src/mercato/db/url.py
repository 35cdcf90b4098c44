"""Which database the settings mean."""

from typing import Final

from mercato.settings import Settings

FILE: Final = "mercato.db"


def database_url(settings: Settings) -> str:
    """Return the URL for `Database.open` and `migrate`: the setting, else SQLite in the data directory."""
    if settings.database_url is not None:
        return settings.database_url.reveal()
    return f"sqlite:///{settings.data_dir.absolute() / FILE}"

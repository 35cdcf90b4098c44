"""Refusals about CatalogSets and their runs."""

from mercato.platform.errors import Problem
from mercato.platform.texts import shown
from mercato_contract import problems


class CatalogSetNotFound(Problem):
    kind = problems.CATALOGSET_NOT_FOUND

    def __init__(self, catalog_set_id: object) -> None:
        super().__init__(
            f"There is no CatalogSet {shown(catalog_set_id)}, or it has expired. Read the store for its current one."
        )


class CatalogIngestNotFound(Problem):
    kind = problems.CATALOG_INGEST_NOT_FOUND

    def __init__(self, run_id: object) -> None:
        super().__init__(f"This store has no catalog ingest run {shown(run_id)}, or it has expired.")

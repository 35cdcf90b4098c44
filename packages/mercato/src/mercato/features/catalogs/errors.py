"""Refusals of catalogs, their runs and switches."""

from mercato.platform.errors import Conflict
from mercato_contract import problems
from mercato_contract.refusals import Problem
from mercato_contract.texts import shown


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


class CatalogSetExpired(Problem):
    kind = problems.CATALOGSET_EXPIRED

    def __init__(self, catalog_set_id: object) -> None:
        super().__init__(
            f"The CatalogSet {shown(catalog_set_id)} of this store is no longer kept. Send its document again."
        )


class ActivationNotPending(Conflict):
    """No switch of the run is to come."""


class TooManyActivations(Conflict):
    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} switches of this store are scheduled. Cancel one that is no longer needed, or wait for the next."
        )


class AnotherMenu(Conflict):
    """What was sent is made of a menu that is being replaced, or that was."""

    def __init__(self) -> None:
        super().__init__(
            "The store has got another menu meanwhile, or is getting one. Nothing was published. Look at the store "
            "again in some seconds, and send it then."
        )


class DraftNotFound(Conflict):
    """Another person's, a published or an expired draft: they look the same."""

    def __init__(self) -> None:
        super().__init__(
            "This menu has been published already, or is no longer kept: it is for an hour. Read the store's runs to "
            "see whether it was, or upload the file again."
        )

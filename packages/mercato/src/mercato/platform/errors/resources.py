"""Refusals because of a resource: it doesn't exist, or not in the required state."""

from uuid import UUID

from mercato.platform.errors.problem import Problem, shown
from mercato_contract import problems


class StoreNotFound(Problem):
    kind = problems.STORE_NOT_FOUND

    def __init__(self, store_id: object) -> None:
        super().__init__(f"This account has no store {shown(store_id)}. Check the storeId.")


class CatalogSetNotFound(Problem):
    kind = problems.CATALOGSET_NOT_FOUND

    def __init__(self, catalog_set_id: object) -> None:
        super().__init__(
            f"There is no CatalogSet {shown(catalog_set_id)}, or it has expired. Read the store for its current one."
        )


class OnboardingNotFound(Problem):
    kind = problems.ONBOARDING_NOT_FOUND

    def __init__(self, onboarding_id: object) -> None:
        super().__init__(f"This account has no onboarding {shown(onboarding_id)}, or it was cancelled.")


class CatalogIngestNotFound(Problem):
    kind = problems.CATALOG_INGEST_NOT_FOUND

    def __init__(self, run_id: object) -> None:
        super().__init__(f"This store has no catalog ingest run {shown(run_id)}, or it has expired.")


class DeliveryNotFound(Problem):
    kind = problems.DELIVERY_NOT_FOUND

    def __init__(self, delivery_id: object) -> None:
        super().__init__(f"This account has no webhook delivery {shown(delivery_id)}, or it has expired.")


class Conflict(Problem):
    kind = problems.CONFLICT


class OnboardingNotReady(Problem):
    kind = problems.ONBOARDING_NOT_READY

    def __init__(self, state: str) -> None:
        super().__init__(
            f"The onboarding is {state}. It can be activated once its status is ready_to_activate."
        )


class OnboardingActive(Problem):
    kind = problems.ONBOARDING_ACTIVE

    def __init__(self) -> None:
        super().__init__("The store is live. Pause it with Set Store Status instead.")


class OnboardingNotFailed(Problem):
    kind = problems.ONBOARDING_NOT_FAILED

    def __init__(self, state: str) -> None:
        super().__init__(f"The onboarding is {state}. Only one that is catalog_failed can be retried.")


class StoreAlreadyRegistered(Problem):
    kind = problems.STORE_ALREADY_REGISTERED

    def __init__(self, onboarding_id: UUID, partner_store_id: str, *, location: str) -> None:
        super().__init__(
            f"partnerStoreId {partner_store_id!r} has an onboarding that is in progress or active. "
            "Read it at Location, or cancel it first.",
            location=location,
            extensions={"onboardingId": str(onboarding_id)},
        )

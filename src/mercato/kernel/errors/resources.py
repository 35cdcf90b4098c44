"""Refusals because of a resource: it doesn't exist, or not in the required state."""

from uuid import UUID

from mercato.kernel.errors.problem import Problem, shown


class StoreNotFound(Problem):
    status, code, category = 404, "STORE_NOT_FOUND", "not_found"
    title = "No such store in this account"

    def __init__(self, store_id: object) -> None:
        super().__init__(f"This account has no store {shown(store_id)}. Check the storeId.")


class CatalogSetNotFound(Problem):
    status, code, category = 404, "CATALOGSET_NOT_FOUND", "not_found"
    title = "No such CatalogSet"

    def __init__(self, catalog_set_id: object) -> None:
        super().__init__(
            f"There is no CatalogSet {shown(catalog_set_id)}, or it has expired. Read the store for its current one."
        )


class OnboardingNotFound(Problem):
    status, code, category = 404, "ONBOARDING_NOT_FOUND", "not_found"
    title = "No such onboarding in this account"

    def __init__(self, onboarding_id: object) -> None:
        super().__init__(f"This account has no onboarding {shown(onboarding_id)}, or it was cancelled.")


class CatalogIngestNotFound(Problem):
    status, code, category = 404, "CATALOG_INGEST_NOT_FOUND", "not_found"
    title = "No such catalog ingest run of this store"

    def __init__(self, run_id: object) -> None:
        super().__init__(f"This store has no catalog ingest run {shown(run_id)}, or it has expired.")


class DeliveryNotFound(Problem):
    status, code, category = 404, "DELIVERY_NOT_FOUND", "not_found"
    title = "No such webhook delivery in this account"

    def __init__(self, delivery_id: object) -> None:
        super().__init__(f"This account has no webhook delivery {shown(delivery_id)}, or it has expired.")


class Conflict(Problem):
    status, code, category = 409, "CONFLICT", "conflict"
    title = "The request conflicts with the resource's state"


class OnboardingNotReady(Problem):
    status, code, category = 409, "ONBOARDING_NOT_READY", "conflict"
    title = "Only an onboarding that is ready_to_activate can be activated"

    def __init__(self, state: str) -> None:
        super().__init__(
            f"The onboarding is {state}. It can be activated once its status is ready_to_activate."
        )


class OnboardingActive(Problem):
    status, code, category = 409, "ONBOARDING_ACTIVE", "conflict"
    title = "An active onboarding cannot be cancelled"

    def __init__(self) -> None:
        super().__init__("The store is live. Pause it with Set Store Status instead.")


class OnboardingNotFailed(Problem):
    status, code, category = 409, "ONBOARDING_NOT_FAILED", "conflict"
    title = "Only a failed onboarding can be retried"

    def __init__(self, state: str) -> None:
        super().__init__(f"The onboarding is {state}. Only one that is catalog_failed can be retried.")


class StoreAlreadyRegistered(Problem):
    status, code, category = 409, "STORE_ALREADY_REGISTERED", "conflict"
    title = "This partnerStoreId is registered already"

    def __init__(self, onboarding_id: UUID, partner_store_id: str, *, location: str) -> None:
        super().__init__(
            f"partnerStoreId {partner_store_id!r} has an onboarding that is in progress or active. "
            "Read it at Location, or cancel it first.",
            location=location,
            extensions={"onboardingId": str(onboarding_id)},
        )

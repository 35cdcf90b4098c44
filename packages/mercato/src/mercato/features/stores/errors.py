"""Refusals about stores and their onboardings."""

from uuid import UUID

from mercato.platform.errors import Problem
from mercato.platform.texts import shown
from mercato_contract import problems


class StoreNotFound(Problem):
    kind = problems.STORE_NOT_FOUND

    def __init__(self, store_id: object) -> None:
        super().__init__(f"This account has no store {shown(store_id)}. Check the storeId.")


class OnboardingNotFound(Problem):
    kind = problems.ONBOARDING_NOT_FOUND

    def __init__(self, onboarding_id: object) -> None:
        super().__init__(f"This account has no onboarding {shown(onboarding_id)}, or it was cancelled.")


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

"""Refusals about webhook deliveries."""

from mercato.platform.errors import NotFound, Problem
from mercato.platform.texts import shown
from mercato_contract import problems


class DeliveryNotFound(Problem):
    kind = problems.DELIVERY_NOT_FOUND

    def __init__(self, delivery_id: object) -> None:
        super().__init__(f"This account has no webhook delivery {shown(delivery_id)}, or it has expired.")


class EndpointNotFound(NotFound):
    def __init__(self, endpoint_id: object) -> None:
        super().__init__(f"This account has no webhook endpoint {shown(endpoint_id)} on this surface.")


class UnknownStore(NotFound):
    kind = problems.STORE_NOT_FOUND

    def __init__(self, store_id: object) -> None:
        super().__init__(f"storeIds names {shown(store_id)}, and there is no such store. Leave it out.")

"""Refusals about webhook deliveries."""

from mercato.platform.errors import Problem
from mercato.platform.texts import shown
from mercato_contract import problems


class DeliveryNotFound(Problem):
    kind = problems.DELIVERY_NOT_FOUND

    def __init__(self, delivery_id: object) -> None:
        super().__init__(f"This account has no webhook delivery {shown(delivery_id)}, or it has expired.")

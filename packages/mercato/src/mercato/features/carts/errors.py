"""Refusals of carts."""

from mercato.platform.errors import Problem
from mercato_contract import problems


class MissingStoreId(Problem):
    kind = problems.MISSING_STORE_ID


class CatalogSetRequired(Problem):
    kind = problems.CATALOGSET_REQUIRED


class ModifierRequired(Problem):
    kind = problems.MODIFIER_REQUIRED


class ModifierLimitExceeded(Problem):
    kind = problems.MODIFIER_LIMIT_EXCEEDED


class ItemUnavailable(Problem):
    kind = problems.ITEM_UNAVAILABLE


class LineItemNotFound(Problem):
    kind = problems.LINE_ITEM_NOT_FOUND

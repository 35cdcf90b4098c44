"""Roles, and what each may do in the console: the one table that the screens are checked against."""

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Final


class Role(StrEnum):
    """What somebody may do in an account. The values are stored."""

    OWNER = "owner"
    """A partner's account itself: the role of a link that a key or a command made."""

    ADMIN = "admin"
    """The operator's account: the role of a command's link, of the account's passkeys, and of some sign-ons."""

    MANAGER = "manager"
    SUPPORT = "support"
    READ_ONLY = "readOnly"

    @property
    def words(self) -> str:
        """Return the role as people read it."""
        return _WORDS[self]


_WORDS: Final = {
    Role.OWNER: "Owner",
    Role.ADMIN: "Admin",
    Role.MANAGER: "Manager",
    Role.SUPPORT: "Support",
    Role.READ_ONLY: "Read only",
}

PARTNER_ROLES: Final = (Role.MANAGER, Role.SUPPORT, Role.READ_ONLY)
"""The roles that people of a partner can have."""

OPERATOR_ROLES: Final = (Role.ADMIN, Role.SUPPORT)
"""Those of the operator's people."""


class Permission(Enum):
    """What a screen needs. Whose screens an account has at all is decided before: an operator's, a merchant's, …"""

    SEE = auto()
    """To see what the account has, but for its customers, keys and people; what changes nothing there."""

    FIND_CUSTOMERS = auto()
    """To find orders by a phone number or an e-mail address that is known."""

    SEE_CUSTOMERS = auto()
    """To see the customer and the delivery address, for operators masked until they ask; and to find orders by a name.

    A name can be guessed, so whoever finds orders by it may learn who ordered.
    """

    SIGN_IN = auto()
    """To add passkeys of one's own, and to end sessions."""

    CHANGE_ORDERS = auto()
    """To cancel and adjust orders, and to send webhooks again."""

    CHANGE_STORES = auto()
    """To pause stores, and to sell items out."""

    MANAGE_STORES = auto()
    """To register stores, and to change their hours, how their orders are handled and what is charged."""

    REVIVE_JOBS = auto()
    CHANGE_CATALOGS = auto()
    PLACE_ORDERS = auto()
    SEE_REPORTS = auto()
    CERTIFY = auto()

    SEE_KEYS = auto()
    """To see which keys and secrets there are, and where webhooks go."""

    CHANGE_KEYS = auto()
    """To revoke keys, and to change where webhooks go and with which token."""

    MAKE_KEYS = auto()
    """To make what signs requests or webhooks, and goes on doing so when the person is gone."""

    SEE_PEOPLE = auto()
    CHANGE_PEOPLE = auto()
    CHANGE_PARTNERS = auto()
    ERASE = auto()


_READ_ONLY: Final = frozenset({Permission.SEE, Permission.SEE_KEYS, Permission.SEE_PEOPLE})

_SUPPORT: Final = frozenset(
    {
        Permission.SEE,
        Permission.FIND_CUSTOMERS,
        Permission.SEE_CUSTOMERS,
        Permission.SIGN_IN,
        Permission.CHANGE_ORDERS,
        Permission.CHANGE_STORES,
        Permission.REVIVE_JOBS,
    }
)

_MANAGER: Final = frozenset(Permission) - {Permission.MAKE_KEYS}

ALLOWED: Final[Mapping[Role, frozenset[Permission]]] = {
    Role.OWNER: frozenset(Permission),
    Role.ADMIN: frozenset(Permission) - {Permission.SEE_CUSTOMERS},
    Role.MANAGER: _MANAGER,
    Role.SUPPORT: _SUPPORT,
    Role.READ_ONLY: _READ_ONLY,
}
"""What each role may do."""

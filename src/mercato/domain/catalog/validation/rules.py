"""The rules of a catalog's check: for each an id that scripts may rely on, and advice."""

from enum import Enum


class Rule(Enum):
    """The rule of a fault or a warning."""

    EMPTY = "empty", "Write the catalog as a JSON object with the member items."
    NOT_JSON = "not-json", "Write JSON with a library, not by hand. The message says where it breaks."
    NOT_UTF8 = "not-utf-8", "Save or send the document as UTF-8."
    TOO_DEEP = "too-deep", "Refer to sections and groups by id instead of nesting them."
    TOO_LARGE = "too-large", "Split the menu: one store needs only what it sells itself."
    NOT_FETCHED = (
        "not-fetched",
        (
            "Check what the URL returns from outside your network. To pull from your own network, set "
            "MERCATO_ALLOW_PRIVATE_NETWORKS=true."
        ),
    )
    BYTE_ORDER_MARK = "byte-order-mark", "Save it as UTF-8 without a byte order mark."
    NEEDS_COMPRESSION = "needs-compression", "Let your server send it with gzip, br or zstd."
    WRONG_TYPE = "wrong-type", "Write the JSON type that the message names, or leave the member out."
    DUPLICATE_KEY = "duplicate-key", "Keep one of them: JSON libraries differ in which one they read."
    ITEMS_MISSING = "items-missing", "Add items, an object of items by id; it may be empty."
    TOO_MANY_CATALOGS = "too-many-catalogs", "Put what is sold at the same hours into one catalog."
    TOO_MANY_GROUPS = "too-many-groups", "Combine choices that go together into one group, or split the item."
    UNKNOWN_CURRENCY = "unknown-currency", "Write the three-letter code of a currency in use, such as EUR."
    ID_DIFFERS = "id-differs-from-key", "Write the same id as key and inside, or leave the inner one out."
    DUPLICATE_ID = "duplicate-id", "Give each its own id; UUIDs are compared without letter case."
    ID_NOT_UUID = "id-not-uuid", "No action needed. Use UUIDs if you want to choose the ids yourself."
    UNRESOLVED_REFERENCE = "unresolved-reference", "Add an entity with that id, or remove the reference."
    REPEATED_REFERENCE = "repeated-reference", "List each id once."
    SECTION_CYCLE = "section-cycle", "Remove the reference that closes the cycle."
    MODIFIER_CYCLE = "modifier-cycle", "Remove the reference that closes the cycle."
    DUPLICATE_OVERRIDE = "duplicate-override", "Keep one price for the item."
    IDLE_OVERRIDE = "idle-override", "List the item in itemIds of the group, or remove its price."
    INVALID_PRICE = "invalid-price", 'Write the price as a decimal string in the currency, such as "12.50".'
    NO_PRICE = "no-price", "Add a basePrice if the item is sold; a choice of a group needs none."
    NO_NAME = "no-name", "Add a name: storefronts show it."
    COUNT_OUT_OF_RANGE = (
        "count-out-of-range",
        "Write a whole number from 0 to 2147483647, or null for no limit.",
    )
    MINIMUM_ABOVE_MAXIMUM = "minimum-above-maximum", "Lower minimumAllowed or raise maximumAllowed."
    UNREACHABLE_MINIMUM = "unreachable-minimum", "Lower minimumAllowed, offer more, or raise maximumPerItem."
    UNKNOWN_DAY = "unknown-day", "Write the English name of the day: Sunday to Saturday."
    INVALID_TIME = "invalid-time", "Write HH:mm:ss in the store's local time."
    WINDOW_INVERTED = "window-inverted", "Write two windows, the first one until 00:00:00."
    TOO_MANY_WINDOWS = "too-many-windows", "Join windows that follow on one another."
    MISNAMED_MEMBER = (
        "misnamed-member",
        "Rename the member if you meant the other one; a member of your own is served unchanged.",
    )
    NEGATIVE_PRICE = (
        "negative-price",
        "Write a price of zero or more. No action needed if a choice is meant to lower what it is added to.",
    )
    NOT_LISTED = "not-listed", "Fix those that are listed, and check again."

    def __init__(self, id: str, advice: str) -> None:  # noqa: A002  # the word of SARIF and of this page
        self.id = id
        self.advice = advice

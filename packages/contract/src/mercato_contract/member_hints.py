"""What is meant by a member that isn't one: of the request it was sent in, of another request, or of another vendor."""

import re
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec import inspect as info

from mercato_contract.catalogs import CatalogSetNotification
from mercato_contract.decoding.checks import alternatives
from mercato_contract.orders import Courier, OrderStatusEntry, OrderStatusUpdate
from mercato_contract.stores import (
    AddressRequest,
    Coordinates,
    ItemAvailabilityEntry,
    OnboardingRequest,
    StoreStatusEntry,
    StoreStatusUpdate,
    StoreUpdate,
)
from mercato_contract.webhooks import WebhookEndpointRequest

UNKNOWN_MEMBER: Final = "UNKNOWN_MEMBER"
"""The code of a warning about a member that was ignored."""

CLOSE: Final = 0.8
"""The least similarity of two names, by difflib's ratio: one letter in five may differ."""

MIN_WORD: Final = 6
"""Letters of a misspelled word of another vendor: shorter ones are alike by chance."""

SUGGESTS: Final = "; did you mean "
"""What precedes a member that is meant, in a hint that names one."""

MAX_NAME: Final = 64
"""Characters of a name that a message repeats, and of one that is compared."""

_HOURS: Final = "opening hours are the `availability` of the catalogs in the CatalogSet"
_MENU: Final = "what the store sells is in the CatalogSet that `catalogCallbackUrl` names"
_CURRENCY: Final = "the currency is a member of the CatalogSet"
_PAUSE: Final = "use Set Store Status"

_OF_ADDRESS: Final = {
    "street": "line1 addressline1 addressline streetaddress street1",
    "address2": "line2 addressline2 street2 unit suite apartment",
    "city": "town locality municipality",
    "state": "region province county administrativearea stateorprovince",
    "postalCode": "zip zipcode postcode zipcodeorpostal",
    "country": "countrycode countryiso",
    "coordinates": "location geo geolocation position latlng lat lng latitude longitude lon",
}
_OF_STORE: Final = {
    "name": "storename title displayname label locationname",
    "address": "location",
    "timezone": "tz timezoneid timezonename",
    "webhookUrl": (
        "webhook webhooks orderwebhookurl orderurl callback ordercallbackurl posurl endpoint notificationurl"
    ),
    "webhookToken": "token secret authtoken bearertoken webhooksecret",
    _HOURS: (
        "hours openinghours businesshours workinghours servicehours schedule availability opening "
        "availabilities"
    ),
    _CURRENCY: "currency currencycode",
    _PAUSE: "status state isopen online paused isactive active enabled",
    "address.coordinates": "lat lng latitude longitude lon coordinates geo",
}
_WORDS: Final[dict[type[Struct], dict[str, str]]] = {
    OnboardingRequest: _OF_STORE
    | {
        "partnerStoreId": (
            "storeid externalid externalstoreid locationid reference ref merchantid channellinkid id siteid"
        ),
        "catalogCallbackUrl": "catalogurl menuurl callbackurl catalog menu feedurl",
        _MENU: "items products sections menus catalogs",
    },
    StoreUpdate: _OF_STORE
    | {
        "phone": "phonenumber telephone tel contactphone",
        "logoUrl": "logo image imageurl logoimage picture",
        "description": "about summary text",
        "minimumOrderAmount": (
            "minimumorder minorder minorderamount minimum minimumamount minorderprice minimumordervalue"
        ),
        "deliveryAllowed": "delivery deliveryenabled isdelivery offersdelivery",
        "pickupAllowed": "pickup pickupenabled takeaway collection takeout offerspickup",
        "categories": "cuisines cuisine tags cuisinetypes category types",
        "a notification names the catalog's URL: use Notify Catalog Update": (
            "catalogcallbackurl callbackurl catalogurl menuurl"
        ),
        "the id of a store is given at its registration and stays": (
            "partnerstoreid externalid storeid reference"
        ),
    },
    AddressRequest: _OF_ADDRESS,
    Coordinates: {"lat": "latitude y", "lng": "longitude lon long x"},
    StoreStatusUpdate: {
        "status": "state isopen isonline online open active enabled availability storestatus paused",
        "pauseReason": "reason message note comment cause closedreason",
        "resumeAt": (
            "until pauseuntil pausedtill pauseduntil reopenat resume resumetime end endat offlineuntil "
            "closeduntil"
        ),
    },
    ItemAvailabilityEntry: {
        "itemId": "item productid variationid id",
        "partnerItemId": "plu sku externalid externaldata reference code ref",
        "available": "isavailable instock status active enabled availability isactive",
        "until": (
            "resumeat availableat suspenduntil snoozeuntil suspendeduntil snoozeend end availableuntil endsat"
        ),
        "say `available: false` for an item that is sold out": (
            "soldout outofstock snoozed suspended unavailable is86d"
        ),
        "availability here is yes or no, without a count": "quantity stock count inventory stocklevel",
    },
    OrderStatusUpdate: {
        "status": "orderstatus newstatus",
        "state": "orderstate",
        "cancelReason": "reason cancellationreason cancelledreason rejectreason denyreason message",
        "estimatedReadyAt": (
            "readyat eta pickupat pickuptime estimatedpickuptime readyforpickuptime readytime estimatedready "
            "estimatedreadytime promisedtime"
        ),
        "estimatedDeliveryAt": "deliveryat deliverytime estimateddeliverytime dropofftime deliveryeta",
        "courier": "driver rider deliveryperson deliverypartner",
        "partnerOrderId": "externalorderid externalid posorderid orderreference",
        "an instant is needed, in `estimatedReadyAt`": (
            "preptime preparationtime prepminutes minutes leadtime"
        ),
    },
    Courier: {
        "name": "firstname fullname drivername",
        "phone": "phonenumber mobile tel",
        "trackingUrl": "tracking trackurl link url trackinglink",
    },
    WebhookEndpointRequest: {
        "url": "endpoint callbackurl targeturl webhookurl uri address destination",
        "types": "events eventtypes enabledevents topics filtertypes type event subscriptions",
        "storeIds": "stores storeid locations",
        "description": "name label title note",
        "headers": "customheaders header extraheaders",
        "enabled": "active isactive status",
        "say `enabled: false` for one that gets nothing": "disabled paused",
        "the service makes the secret: the answer has it, once": "secret signingsecret secretkey token",
    },
}
"""What is meant by words of other vendors: a member, or a sentence. The words are without case and separators."""

_KIN: Final[dict[type[Struct], type[Struct]]] = {
    StoreStatusEntry: StoreStatusUpdate,
    OrderStatusEntry: OrderStatusUpdate,
}
"""Entries of lists, with the request whose members they have."""

_OTHERS: Final[dict[str, type[Struct]]] = {
    "Register Store": OnboardingRequest,
    "Update Store": StoreUpdate,
    "Set Store Status": StoreStatusUpdate,
    "Set Item Availability": ItemAvailabilityEntry,
    "Update Order Status": OrderStatusUpdate,
    "Notify Catalog Update": CatalogSetNotification,
    "Create Webhook Endpoint": WebhookEndpointRequest,
}


@lru_cache(maxsize=1024)
def member_hint(request: type[Struct], pointer: str) -> str:
    """Return the message about an unknown member at a pointer into a request, which was ignored."""
    kind, name = _kind_and_name(request, pointer)
    shown = f"`{_shown(name)}` is not a member"
    if (own := _own_hint(kind, name)) is not None:
        return f"{shown}{own}"
    plain, meanings = _fold(name), _meanings(_KIN.get(kind, kind))
    for operation, other in _OTHERS.items():
        member = _names(other).get(plain)
        if member is None and request is OnboardingRequest and other is StoreUpdate:
            member = _meanings(other).get(plain)
        if member is not None:
            return f"{shown} of this request; send `{member}` with {operation}."
    if MIN_WORD <= len(name) <= MAX_NAME and (close := get_close_matches(plain, meanings, n=1, cutoff=CLOSE)):
        return f"{shown}{_hint(meanings[close[0]])}"
    return f"{shown}; it was ignored."


@lru_cache(maxsize=1024)
def member_fault(request: type[Struct], pointer: str) -> str:
    """Return the message about an unknown member at a pointer into a request, which is refused for it.

    It names members of this request alone: its sender may know no other.
    """
    kind, name = _kind_and_name(request, pointer)
    own = _own_hint(kind, name) or f"; it must be one of {', '.join(kind.__struct_encode_fields__)}."
    return f"`{_shown(name)}` is not a member{own}"


def _kind_and_name(request: type[Struct], pointer: str) -> tuple[type[Struct], str]:
    *above, name = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    return _struct_at(request, tuple(above)), name


def _own_hint(kind: type[Struct], name: str) -> str | None:
    """Return which member of this object is meant, or None."""
    plain, own = _fold(name), _names(kind)
    if plain in own:
        return f"{SUGGESTS}`{own[plain]}`?"
    meant = _meanings(_KIN.get(kind, kind)).get(plain)
    if meant is not None:
        return _hint(meant)
    if len(name) <= MAX_NAME:
        # Letters that were swapped are no less similar in a short name.
        swapped = [member for member in own if sorted(member) == sorted(plain)]
        close = swapped or get_close_matches(plain, own, n=1, cutoff=CLOSE)
        if close:
            return f"{SUGGESTS}`{own[close[0]]}`?"
    below = _below(kind, plain)
    return None if below is None else f"{SUGGESTS}`{below}`?"


def _hint(meant: str) -> str:
    """Return the end of a message: the member that is meant, or why there is none."""
    return f"{SUGGESTS}`{meant}`?" if " " not in meant else f"; {meant}."


def _shown(name: str) -> str:
    cut = name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut)


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _names(kind: type[Struct]) -> dict[str, str]:
    return {_fold(name): name for name in kind.__struct_encode_fields__}


@cache
def _meanings(kind: type[Struct]) -> dict[str, str]:
    return {word: meant for meant, words in _WORDS.get(kind, {}).items() for word in words.split(" ")}


def _struct_at(request: type[Struct], steps: tuple[str, ...]) -> type[Struct]:
    """Return the type of the object that the steps lead to."""
    kind: info.Type = info.type_info(request)
    for step in steps:
        kind = _inside(kind, step)
    return _struct(kind) or request


def _inside(kind: info.Type, step: str) -> info.Type:
    for option in alternatives(kind):
        if isinstance(option, info.ListType):
            return option.item_type
        if isinstance(option, info.StructType):
            for field in option.fields:
                if field.encode_name == step:
                    return field.type
    return kind


def _struct(kind: Any) -> type[Struct] | None:
    return next((part.cls for part in alternatives(kind) if isinstance(part, info.StructType)), None)


@cache
def _inner(kind: type[Struct]) -> dict[str, type[Struct]]:
    """Return the members that are objects, with their types."""
    fields = msgspec.structs.fields(kind)
    found = {field.encode_name: _struct(info.type_info(field.type)) for field in fields}
    return {name: inner for name, inner in found.items() if inner is not None}


def _below(kind: type[Struct], plain: str) -> str | None:
    """Return the path to a member of this name in an object of the request."""
    for name, inner in _inner(kind).items():
        member = _names(inner).get(plain) or _meanings(inner).get(plain)
        if member is not None:
            return f"{name}.{member}"
    return None

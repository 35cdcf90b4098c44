"""Members that aren't known here, and what is meant by them: misspelled ones, and the words of other vendors. Pure."""

import re
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from mercato_catalog.validation.document import CATALOGS, GROUPS, ITEMS, SECTIONS, Source, Table
from mercato_catalog.validation.findings import Findings, Rule, shorten
from mercato_contract.json_values import escape

MAX_NAMES: Final = 500
"""Unknown names of one table that are checked; a document with more isn't misspelled."""

MAX_COMPARED: Final = 50
"""Names that are compared letter by letter: half a millisecond for ten of them."""

MAX_NEAR: Final = 10
"""Misnamed members of one table that are warned of."""

MAX_NAME: Final = 40
"""Characters of a name that may be a misspelling; the longest known one has 16."""

CLOSE: Final = 0.86
"""The least similarity of two names, by difflib's ratio: one letter in eight may differ."""


class Meaning(NamedTuple):
    """The member that is meant, if it is one, and what to do beside renaming. A flag that isn't true says nothing."""

    member: str | None
    advice: str = ""
    is_flag: bool = False


_ONE_MUST: Final = Meaning(
    "minimumAllowed", " A group of which something must be chosen has minimumAllowed 1.", True
)
_ONLY_ONE: Final = Meaning("maximumAllowed", " A group of which one thing is chosen has maximumAllowed 1.")
_SOLD_OUT: Final = Meaning("isAvailable", " An item that is sold out has isAvailable false.", True)
_OF_GROUP: Final = Meaning(
    "minimumAllowed", " minimumAllowed and maximumAllowed are members of the group itself."
)
_HOURS: Final = Meaning(
    None, " Hours belong to catalogs: put what is sold at other hours into a catalog of its own."
)
_PARENT: Final = Meaning(None, " A section lists the ids of the sections in it, in sectionIds.")
_MINOR: Final = Meaning("basePrice", ' A basePrice is a decimal string, such as "4.50".')

_NAMED: Final = {Meaning("name"): "title label displayname displaytitle"}
_SHARED: Final = _NAMED | {
    Meaning("description"): "desc details longdescription shortdescription subtitle summary"
}
_WITH_IMAGE: Final = _SHARED | {
    Meaning("imageUrl"): (
        "image images imageurls imageuri img photo photos photourl picture pictureurl thumbnail thumbnailurl imagelink"
    ),
}
_HOURS_WORDS: Final = (
    "hours openinghours businesshours servicehours availablehours menuhours schedule schedules windows timewindows "
    "serviceavailability availabilities availabilityhours availabilitywindows timeperiods timeslots daypart dayparts"
)
_BOUND: Final = (
    "{0} {0}imum {0}quantity {0}qty {0}allowed {0}imumrequired {0}required {0}selections {0}selection {0}select "
    "{0}selected {0}selectedmodifiers {0}imumselections {0}imumselection {0}imumselect {0}permitted {0}imumpermitted "
    "{0}choices {0}imumchoices {0}options {0}imumoptions {0}modifiers {0}items {0}amount {0}count {0}number {0}value "
    "{0}imumquantity {0}imumcount {0}imumitems {0}pick {0}toselect selection{0} selection{0}count quantity{0}"
)
"""Names of a group's bounds, with `min` or `max` in them."""

_TOP: Final = {
    Meaning("catalogs"): "menus menu",
    Meaning("sections"): "categories menusections menucategories",
    Meaning("items"): "products menuitems dishes articles",
    Meaning("modifierGroups"): (
        "modifiers optiongroups options modifierlists addongroups addons optionlists choicegroups modifiergrouplist"
    ),
    Meaning("currency"): "currencycode currencyiso isocurrency",
}
_WORDS: Final[dict[str, dict[Meaning, str]]] = {
    CATALOGS.member: _SHARED
    | {
        Meaning("sectionIds"): "sections categories categoryids menusections menusectionids sectionrefs",
        Meaning("availability"): _HOURS_WORDS,
    },
    SECTIONS.member: _WITH_IMAGE
    | {
        Meaning(
            "itemIds"
        ): "items products productids entities menuitems menuitemids dishes itemrefs articles",
        Meaning(
            "sectionIds"
        ): "sections subsections children subcategories subcategoryids childids categoryids",
        _HOURS: f"availability {_HOURS_WORDS}",
        _PARENT: "parent parentid parentsectionid parentcategoryid",
    },
    ITEMS.member: _WITH_IMAGE
    | {
        Meaning("basePrice"): (
            "price unitprice amount cost listprice defaultprice sellingprice saleprice displayprice itemprice "
            "priceamount pricevalue priceinfo pricemoney regularprice netprice grossprice"
        ),
        _MINOR: "pricecents priceincents unitamount priceminor priceminorunits",
        Meaning("modifierGroupIds"): (
            "modifiergroups modifiers modifierids optiongroups optiongroupids options optionids optionlistids addons "
            "addongroups addonids extras modifierlists modifierlistids modifierlistinfo choices choicegroups "
            "customizations customisations variants variations sizes subproducts subitems groups groupids"
        ),
        Meaning("isAvailable"): "available instock active isactive enabled isenabled visible isvisible",
        Meaning("isAvailable", _HOURS.advice): "availability",
        _SOLD_OUT: (
            "soldout issoldout outofstock isoutofstock snoozed issnoozed suspended unavailable hidden ishidden 86d"
        ),
        Meaning("maximumQuantity"): (
            "maxquantity maxqty maxperorder maximumperorder quantitylimit orderlimit maxorderquantity "
            "maximumorderquantity"
        ),
        Meaning("partnerItemId"): (
            "sku plu externalid externalitemid externalreference externaldata posid positemid referenceid "
            "merchantitemid retailerid"
        ),
        Meaning("tags"): "dietarylabels dietaryinfo dietaryflags producttags labels",
        _HOURS: _HOURS_WORDS,
    },
    GROUPS.member: _NAMED
    | {
        Meaning("itemIds"): (
            "items options choices modifiers modifieroptions modifierids optionids choiceids modifieritems subproducts "
            "entities values productids products"
        ),
        Meaning("minimumAllowed"): (
            f"{_BOUND.format('min')} lowerlimit lowerbound requiredcount numrequired requiredquantity "
            "requiredselections"
        ),
        Meaning("maximumAllowed"): f"{_BOUND.format('max')} upperlimit upperbound limit selectionlimit",
        _ONE_MUST: (
            "required isrequired mandatory ismandatory forced isforced requiresselection selectionrequired compulsory"
        ),
        _ONLY_ONE: "selectiontype singleselect singleselection multiselect multipleselection allowmultiple ismultiple",
        _OF_GROUP: (
            "quantityinfo quantity quantityconstraint quantityconstraints constraints selectionrange selectionlimits "
            "selectionrules rules range"
        ),
        Meaning("maximumPerItem"): (
            "maxperitem maxperchoice maxperoption maxpermodifier multimax maxquantityperitem maxquantityperoption "
            "maximumperchoice maxrepeats"
        ),
        Meaning("freeQuantity"): (
            "free freecount freeitems freemodifiers freechoices freeoptions includedquantity included includedcount "
            "includedmodifiers chargeabove numfree numberfree"
        ),
        Meaning("priceOverrides"): "prices overrides optionprices upcharges pricesbyitem",
        _HOURS: f"availability {_HOURS_WORDS}",
    },
}
"""What is meant by names of members in other formats. The names are folded, and divided by blanks."""

_OF_WINDOW: Final = {
    "dayOfWeek": "day days weekday daysofweek dayname dow",
    "start": "from starttime startsat opens opensat open opentime opening begin begintime timefrom startat starts",
    "end": "to endtime endsat closes closesat close closetime closing until timeto finish endat ends till",
}

_TOP_MEMBERS: Final = (
    "currency",
    "catalogSetId",
    "storeId",
    *(schema.member for schema in (CATALOGS, SECTIONS, ITEMS, GROUPS)),
)

_Meanings = dict[str, Meaning]


def _by_word(words: dict[Meaning, str]) -> _Meanings:
    return {word: meaning for meaning, text in words.items() for word in text.split(" ")}


_BY_WORD: Final = {member: _by_word(words) for member, words in _WORDS.items()}
_BY_WORD_AT_TOP: Final = _by_word(_TOP)


def warn_near_misses(source: Source, findings: Findings) -> None:
    """Warn of members whose names are close to a known one that is missing, or are another vendor's word for it."""
    for name, meaning in _find_close(set(source.top), _TOP_MEMBERS, _BY_WORD_AT_TOP):
        if meaning.member is None or source.top.get(meaning.member) is None:
            findings.warn(Rule.MISNAMED_MEMBER, _message("The document", name, meaning), f"/{escape(name)}")
    for table in source.tables:
        _warn_table(table, findings)


def window_hint(window: dict[str, Any], member: str) -> str:
    """Return which member of a window is meant to be the one that it lacks, as a sentence to append."""
    if member in window:
        return ""
    words = _OF_WINDOW[member].split(" ")
    folded = {member.lower(), *words}
    found = next((name for name in window if len(name) <= MAX_NAME and _fold(name) in folded), None)
    return "" if found is None else f" {shorten(found)} isn't known here. Did you mean {member}?"


def _warn_table(table: Table[Any], findings: Findings) -> None:
    schema = table.schema
    known = (*schema.forms, schema.own_id, "partnerItemId")
    for name, meaning in _find_close(table.member_names, known, _BY_WORD[schema.member]):
        rows = [key for key, row in table.members.items() if name in row and _is_meant(row, name, meaning)]
        if rows:
            subject = f"The {schema.noun} {table.label(rows[0])}"
            others = f" {len(rows):,} {schema.member} have it." if len(rows) > 1 else ""
            pointer = f"{table.pointer(rows[0])}/{escape(name)}"
            findings.warn(
                Rule.MISNAMED_MEMBER, _message(subject, name, meaning) + others, pointer, of=schema.member
            )


def _is_meant(row: dict[str, Any], name: str, meaning: Meaning) -> bool:
    """Return whether an entity says something by the member that it doesn't say by the known one."""
    if meaning.is_flag and not row[name]:
        return False
    return meaning.member is None or row.get(meaning.member) is None


def _find_close(used: set[str], known: tuple[str, ...], meanings: _Meanings) -> list[tuple[str, Meaning]]:
    """Return unknown names with what is meant by them, in order."""
    unknown = [name for name in used.difference(known) if len(name) <= MAX_NAME]
    if len(unknown) > MAX_NAMES:
        return []
    folded = {_fold(name): name for name in known}
    found: list[tuple[str, Meaning]] = []
    for number, name in enumerate(sorted(unknown)):
        plain = _fold(name)
        meaning = meanings.get(plain)
        close = folded.get(plain)
        if meaning is None and close is None and number < MAX_COMPARED:
            close = next(
                (folded[match] for match in get_close_matches(plain, folded, n=1, cutoff=CLOSE)), None
            )
        if meaning is None and close is not None:
            meaning = Meaning(close)
        if meaning is not None:
            found.append((name, meaning))
    return found[:MAX_NEAR]


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _message(subject: str, name: str, meaning: Meaning) -> str:
    meant = "" if meaning.member is None else f" Did you mean {meaning.member}?"
    return f"{subject} has the member {shorten(name)}, which isn't known here.{meant}{meaning.advice}"

"""Whether what a command printed is what the document shows: the same shape and the same words.

Ids, instants and `…` stand for any of their kind. `"…": "…"` in an object, a last `"…"` in a list, and a last
line `…` stand for what is not shown, if there is anything.
"""

import json
import re
from typing import Any

ANY = "…"

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
_PLACES = re.compile(f"({_UUID}|{_INSTANT}|{ANY})")
_MORE = re.escape("\n") + ".*"
_FORMS = ((_UUID, re.compile(_UUID)), (_INSTANT, re.compile(_INSTANT)), (".*", re.compile(ANY)))


def difference(language: str, shown: str, printed: str) -> str | None:
    """Return how the output differs from the document's, or None."""
    if language == "json":
        try:
            return _differs(json.loads(shown), json.loads(printed), "")
        except json.JSONDecodeError as error:
            return f"not JSON ({error}): {printed!r}"
    return None if _alike(shown.strip(), printed.strip()) else f"printed {printed!r}"


def _alike(shown: str, printed: str) -> bool:
    pattern = "".join(
        next((form for form, known in _FORMS if known.fullmatch(part)), re.escape(part))
        for part in _PLACES.split(shown)
    )
    if pattern.endswith(_MORE):
        pattern = f"{pattern.removesuffix(_MORE)}({_MORE})?"
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def _differs(shown: Any, printed: Any, at: str) -> str | None:
    if shown == ANY:
        return None
    if isinstance(shown, str) and isinstance(printed, str):
        return None if _alike(shown, printed) else f"{at} is {printed!r}"
    if isinstance(shown, dict) and isinstance(printed, dict):
        return _object_differs(shown, printed, at)
    if isinstance(shown, list) and isinstance(printed, list):
        return _list_differs(shown, printed, at)
    return None if shown == printed and type(shown) is type(printed) else f"{at} is {printed!r}"


def _object_differs(shown: dict[str, Any], printed: dict[str, Any], at: str) -> str | None:
    names = shown.keys() - {ANY}
    missing, extra = names - printed.keys(), printed.keys() - names
    if missing or (extra and ANY not in shown):
        return f"{at} lacks {sorted(missing)} or has {sorted(extra)} besides: {printed}"
    return next(
        (found for name in names if (found := _differs(shown[name], printed[name], f"{at}/{name}"))), None
    )


def _list_differs(shown: list[Any], printed: list[Any], at: str) -> str | None:
    more = shown[-1:] == [ANY]
    known = shown[:-1] if more else shown
    if len(printed) < len(known) or (len(printed) > len(known) and not more):
        return f"{at} has {len(printed)} entries: {printed}"
    pairs = enumerate(zip(known, printed, strict=False))
    return next((found for index, (a, b) in pairs if (found := _differs(a, b, f"{at}/{index}"))), None)

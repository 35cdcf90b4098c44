"""What stands in a document and no importer reads: found by a walk beside the type, so that nothing is lost unsaid."""

from collections.abc import Collection
from functools import cache
from typing import Any

from msgspec import inspect as info

from mercato.domain.catalog.imports.losses import Losses
from mercato.domain.catalog.validation.findings import clipped
from mercato.kernel.wire.walk import escape

_EMPTY: tuple[Any, ...] = (None, "", [], {})


def report_unread(document: Any, kind: Any, losses: Losses, *, idle: Collection[str]) -> None:
    """Note every member that the type does not have, unless it is empty. `idle` are names that say nothing."""
    _walk(document, info.type_info(kind), "", losses, idle)


def _walk(value: Any, kind: info.Type, at: str, losses: Losses, idle: Collection[str]) -> None:
    match _fitting(value, kind):
        case info.StructType() as struct:
            fields = _fields(struct.cls)
            for name, inner in value.items():
                if name in fields:
                    _walk(inner, fields[name], f"{at}/{escape(name)}", losses, idle)
                elif name not in idle and inner not in _EMPTY:
                    losses.dropped(f"{at}/{escape(name)}", f"{clipped(name)} has no counterpart.")
        case info.ListType(item_type=inner):
            for index, one in enumerate(value):
                _walk(one, inner, f"{at}/{index}", losses, idle)
        case info.DictType(value_type=inner):
            for key, one in value.items():
                _walk(one, inner, f"{at}/{escape(key)}", losses, idle)


@cache
def _fields(kind: type) -> dict[str, info.Type]:
    struct = info.type_info(kind)
    assert isinstance(struct, info.StructType)
    return {field.encode_name: field.type for field in struct.fields}


def _fitting(value: Any, kind: info.Type) -> info.Type | None:
    """Return the alternative of the type that the value is walked by: none for what holds nothing."""
    options = kind.types if isinstance(kind, info.UnionType) else (kind,)
    if isinstance(value, dict):
        wanted: tuple[type[info.Type], ...] = (info.StructType, info.DictType)
    elif isinstance(value, list):
        wanted = (info.ListType,)
    else:
        return None
    return next((option for option in options if isinstance(option, wanted)), None)

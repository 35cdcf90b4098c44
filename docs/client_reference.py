"""The reference page of the Python client, from its methods and their docstrings."""
# ruff: noqa: INP001  # part of a script

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args, get_origin, get_type_hints

from mercato_client import Client, Receiver, as_cart, errors, to_place, verify_webhook
from mercato_client.clients import Surfaces
from mercato_client.operation import Flow, Listing, Operation

INTRO: Final = (
    "`Client` and `AsyncClient` have the same methods. Those of `AsyncClient` are awaited. `Pages` yields every entry "
    "of every page when it is iterated, and its `page` is the first page. `AsyncClient` has `AsyncPages` instead: "
    "`async for` yields every entry, and `await` returns the first page. Types are in `mercato_client.types`; "
    "[operations](operations.md#types) describes them. "
    "[Use the Python client](../how-to/use-the-python-client.md) shows how to use them together."
)
TITLES: Final[Mapping[str, str]] = {
    "Commerce": "Commerce, with a merchant's key",
    "CommerceWaits": "Commerce, waiting",
    "Marketfront": "Marketfront, with a storefront's key or token",
    "MarketfrontWaits": "Marketfront, waiting",
    "EitherKey": "With a key of either surface",
}


def client_page(notice: str) -> str:
    """Return the text of the page."""
    blocks = ["# Python client", notice, INTRO, _item("Client", Client, _signature(Client, "Client"))]
    for kind in Surfaces.__mro__[1:-1]:
        if kind.__name__ in TITLES:
            blocks += [f"## {TITLES[kind.__name__]}", *_methods(kind)]
    blocks += ["## Beside the methods", *_functions(), "## Exceptions", *_exceptions()]
    return "\n\n".join(blocks).rstrip() + "\n"


def _methods(kind: type) -> Iterator[str]:
    for name, member in vars(kind).items():
        if not isinstance(member, Flow):
            continue
        doc = inspect.getdoc(member) or ""
        if isinstance(member, Operation):
            doc = f"`{member.method} {member.path}`\n\n{doc}"
        returned = _kind(member.returned)
        if isinstance(member, Listing):
            returned = f"Pages[{returned}, {_kind(_entry(member.returns))}]"
        yield _item(name, doc, f"{name}{_shown(member.__signature__)} -> {returned}")


def _entry(page: type) -> Any:
    """Return the type of a page's entries: its one member that is a sequence."""
    (entry,) = [
        get_args(kind)[0] for kind in get_type_hints(page).values() if get_origin(kind) in {list, tuple}
    ]
    return entry


def _functions() -> Iterator[str]:
    for function in (verify_webhook, as_cart, to_place):
        yield _item(function.__name__, function, _signature(function, function.__name__))
    yield _item("Receiver", Receiver, _signature(Receiver, "Receiver"))
    yield _item("Receiver.answer", Receiver.answer, _signature(Receiver.answer, "answer"))


def _exceptions() -> Iterator[str]:
    kinds = [
        one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.MercatoError)
    ]
    for kind in kinds:
        parent = next(base for base in kind.__mro__[1:] if issubclass(base, Exception))
        yield _item(kind.__name__, kind, f"{kind.__name__}({parent.__name__})")


def _item(name: str, told: Any, signature: str) -> str:
    doc = told if isinstance(told, str) else inspect.getdoc(told) or ""
    return f"### {name}\n\n```text\n{signature}\n```\n\n{doc}"


def _signature(what: Any, name: str) -> str:
    signature = inspect.signature(what)
    return name + _shown(signature) + ("" if signature.return_annotation is None else _returns(signature))


def _returns(signature: inspect.Signature) -> str:
    if signature.return_annotation in {inspect.Signature.empty, None}:
        return ""
    return f" -> {_kind(signature.return_annotation)}"


def _shown(signature: inspect.Signature) -> str:
    kept = [one for one in signature.parameters.values() if one.name not in {"self", "now"}]
    text = str(signature.replace(parameters=kept, return_annotation=inspect.Signature.empty))
    return _plain(text)


def _kind(kind: Any) -> str:
    if kind is type(None):
        return "None"
    return _plain(kind if isinstance(kind, str) else kind.__name__ if isinstance(kind, type) else str(kind))


def _plain(text: str) -> str:
    """Return annotations without the modules that they are from."""
    short = re.sub(r"\b(?:mercato\w*|collections|typing|uuid|datetime)\.(?:[a-z_]+\.)*(?=\w)", "", text)
    return short.replace("UUID | str", "Id").replace("NoneType", "None")

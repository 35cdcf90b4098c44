"""The client has a method for every operation of the service, of the same types, and no others."""

import inspect
import pydoc
import re
import subprocess
import sys
from typing import Any, get_type_hints

import msgspec
import pytest

from mercato.asgi import operations
from mercato.http.operations import Access
from mercato.http.operations import Operation as Declared
from mercato_client import AsyncClient, Client
from mercato_client.clients import Surfaces
from mercato_client.operation import Flow, Operation

SERVED = {one.id: one for one in operations() if one.access is not Access.PUBLIC and one.tag != "MCP"}
"""Those of the API. Clients of the Model Context Protocol are made by others."""
IDS = {"".join("_" + c.lower() if c.isupper() else c for c in name): one for name, one in SERVED.items()}
METHODS = {
    name: member
    for kind in Surfaces.__mro__
    for name, member in vars(kind).items()
    if isinstance(member, Operation)
}


def test_the_client_has_a_method_for_every_operation_and_no_others():
    assert METHODS.keys() == IDS.keys()


@pytest.mark.parametrize("name", sorted(IDS))
def test_a_method_is_what_the_service_has_declared(name: str):
    method, declared = METHODS[name], IDS[name]
    assert (method.method, method.path) == (declared.method, declared.path)
    assert method.returns is (declared.returns or type(None))
    assert not method.repeats or declared.method == "GET" or name in REPEATED
    sent = method.request(**arguments(method))
    assert len(sent.ids) == len(re.findall(r"\{", declared.path))
    names = (
        set() if declared.query is None else {f.encode_name for f in msgspec.structs.fields(declared.query)}
    )
    assert set(sent.query) == names
    assert (sent.idempotency_key is not None) is ("Idempotency-Key" in declared.request_headers)
    check_body(method, declared, sent.body)


REPEATED = {
    "validate_catalog_set", "discover_stores", "add_cart_item", "remove_cart_item", "update_cart_item",
    "validate_order", "place_order", "cancel_order", "adjust_order",
    "explain_webhook_signature",
}  # fmt: skip
"""What changes nothing, and the writes that have an Idempotency-Key."""


def arguments(method: Operation[..., Any]) -> dict[str, Any]:
    return dict.fromkeys(method.__signature__.parameters, "x")


def check_body(method: Operation[..., Any], declared: Declared, body: Any) -> None:
    if declared.takes is None or declared.decodes_itself:
        assert (body is None) is (declared.takes is None)
    elif isinstance(body, msgspec.Struct):
        assert type(body) is declared.takes
    else:
        hints = get_type_hints(method._build)
        given = [hints[name] for name in method.__signature__.parameters]
        assert given.count(declared.takes) == 1


def test_both_clients_show_docstring_and_parameters_of_every_method():
    with Client("http://127.0.0.1:1", "k") as sync:
        for client in (sync, AsyncClient("http://127.0.0.1:1", "k")):
            for name in dir(type(client)):
                member = inspect.getattr_static(type(client), name)
                if isinstance(member, Flow):
                    assert inspect.getdoc(member), name
                    shown = inspect.signature(getattr(client, name))
                    assert "self" not in shown.parameters
                    assert "core" not in shown.parameters


LOADED = """
import sys
before = set(sys.modules)
import mercato_client
print(*sorted(set(sys.modules) - before))
"""


def test_importing_the_client_loads_nothing_of_the_service():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    public = {name.partition(".")[0] for name in done.stdout.split() if not name.startswith("_")}
    assert "mercato" not in public
    assert {"mercato_client", "mercato_contract", "httpx", "msgspec"} <= public
    assert public.isdisjoint({"aiohttp", "sqlalchemy", "granian", "asyncpg", "cryptography", "structlog"})


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_help_of_a_client_shows_each_methods_arguments(client: type[Client] | type[AsyncClient]):
    # From Python 3.13 on, arguments that are too many for a line have one each.
    text = re.sub(r"\(\s*\|\s*", "(", pydoc.plain(pydoc.render_doc(client)))
    assert "get_store(store_id: " in text
    assert "place_order(order: " in text
    assert "list_stores(" in text
    assert "(...)" not in text


def test_without_the_extra_the_doubles_say_what_to_install():
    program = "import sys; sys.modules['aiohttp'] = None; import mercato_client.testing"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith('pip install "mercato-client[testing]".')

"""The collection of all operations, for Postman and for what reads its format: Bruno, Insomnia, Hoppscotch.

One file of the v2.1 format rather than a folder of Bruno's own, because every one of these tools imports it.
"""
# ruff: noqa: INP001  # part of a script

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from llms import in_order

from mercato.http.openapi.schemas import BREAD, LINE, SET, SIDES, SOUP, STORE

SCHEMA: Final = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"

KEYS: Final = {
    "baseUrl": "http://127.0.0.1:8000",
    "commerceKey": "mk_commerce_…",
    "marketfrontKey": "mk_marketfront_…",
    "marketfrontKeyId": "",
    "errorCode": "STORE_CLOSED",
}
"""What a reader fills in, with what `mercato partner create` prints."""

EXAMPLE_IDS: Final = {
    STORE: "storeId", SET: "catalogSetId", SOUP: "itemId", BREAD: "choiceId", SIDES: "modifierGroupId",
    LINE: "lineItemId",
}  # fmt: skip
"""The ids of the examples, by the variable that takes their place."""

CATALOG: Final = {
    "currency": "USD",
    "sections": {"mains": {"name": "Mains", "itemIds": ["soup"]}},
    "items": {"soup": {"name": "Tomato soup", "basePrice": "6.50"}},
}

BODIES: Final[Mapping[str, Any]] = {
    "retryOnboarding": {},
    "updateStore": {"name": "Soup & Co, Uptown", "minimumOrderAmount": "10.00"},
    "validateCatalogSet": CATALOG,
    "putCatalog": CATALOG,
}
"""Bodies of operations whose types have no example of their own."""

ABOUT: Final = (
    "Every operation of Mercato, made from the code. Fill in `baseUrl` and the keys that `mercato partner create` "
    "prints; ids are taken from the answers as they come: register and activate a store, and `storeId` is there. "
    "`itemId`, `modifierGroupId` and `choiceId`, one of the group's items, are those of your catalog as Get CatalogSet "
    "tells them."
)

Json = Mapping[str, Any]


def collection(api: Json) -> str:
    """Return the collection of an OpenAPI document, as JSON."""
    folders: dict[str, list[Any]] = {}
    for method, path, operation in in_order(api):
        if not path.startswith("/docs"):  # they are for browsers
            folders.setdefault(operation["tags"][0], []).append(_item(api, path, method, operation))
    in_paths = {name for path in api["paths"] for name in re.findall(r"\{(\w+Id)\}", path)}
    names = sorted(in_paths | {*EXAMPLE_IDS.values()})
    made = {
        "info": {"name": "Mercato", "description": ABOUT, "schema": SCHEMA},
        "variable": [{"key": name, "value": value} for name, value in KEYS.items()]
        + [{"key": name, "value": ""} for name in names],
        "item": [{"name": tag, "item": items} for tag, items in folders.items()],
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _item(api: Json, path: str, method: str, operation: Json) -> Json:
    made: dict[str, Any] = {
        "name": operation["summary"],
        "request": {
            "method": method,
            "auth": _auth(operation),
            "header": _headers(operation),
            "url": _url(path, operation),
            "description": operation["description"],
        },
    }
    body = _body(api, operation)
    if body is not None:
        made["request"]["body"] = body
    kept = _kept(api, operation)
    if kept:
        made["event"] = [{"listen": "test", "script": {"type": "text/javascript", "exec": kept}}]
    return made


def _auth(operation: Json) -> Json:
    ways = [name for way in operation["security"] for name in way]
    if "clientSecret" in ways:
        said = {"username": "{{marketfrontKeyId}}", "password": "{{marketfrontKey}}"}
        return {
            "type": "basic",
            "basic": [{"key": name, "value": value, "type": "string"} for name, value in said.items()],
        }
    for way, key in (("commerceKey", "commerceKey"), ("marketfrontToken", "marketfrontKey")):
        if way in ways:
            return {
                "type": "bearer",
                "bearer": [{"key": "token", "value": f"{{{{{key}}}}}", "type": "string"}],
            }
    return {"type": "noauth"}


def _headers(operation: Json) -> list[Json]:
    body = operation.get("requestBody")
    media = [{"key": "Content-Type", "value": next(iter(body["content"]))}] if body else []
    # A new one each time: to repeat a request, put its value in.
    values = {"Idempotency-Key": "{{$guid}}"}
    return media + [
        {"key": one["name"], "value": values.get(one["name"], ""), "disabled": not one.get("required", False)}
        for one in _parameters(operation, "header")
    ]


def _url(path: str, operation: Json) -> Json:
    path = re.sub(r"\{(\w+)\}", r"{{\1}}", path)
    query = [
        {
            "key": one["name"],
            "value": f"{{{{{one['name']}}}}}"
            if one["name"] == "storeId"
            else str(one["schema"].get("default", next(iter(one["schema"].get("examples", ())), ""))),
            "description": one.get("description", ""),
            # Notify Catalog Update reads its store from there, and says so.
            "disabled": not (one["required"] or operation["operationId"] == "notifyCatalogUpdate"),
        }
        for one in _parameters(operation, "query")
    ]
    sent = "&".join(f"{one['key']}={one['value']}" for one in query if not one["disabled"])
    raw = "{{baseUrl}}" + path + (f"?{sent}" if sent else "")
    url: dict[str, Any] = {"raw": raw, "host": ["{{baseUrl}}"], "path": path.split("/")[1:]}
    return url | ({"query": query} if query else {})


def _parameters(operation: Json, where: str) -> list[Json]:
    return [one for one in operation["parameters"] if one.get("in") == where]


def _body(api: Json, operation: Json) -> Json | None:
    if "requestBody" not in operation:
        return None
    media, content = next(iter(operation["requestBody"]["content"].items()))
    if media == "application/x-www-form-urlencoded":
        return {"mode": "urlencoded", "urlencoded": [{"key": "grant_type", "value": "client_credentials"}]}
    example = BODIES.get(operation["operationId"])
    if example is None:
        example = api["components"]["schemas"][_name(content["schema"])]["examples"][0]
    text = json.dumps(example, indent=2, ensure_ascii=False)
    for value, name in EXAMPLE_IDS.items():
        text = text.replace(value, f"{{{{{name}}}}}")
    return {"mode": "raw", "raw": text, "options": {"raw": {"language": "json"}}}


def _kept(api: Json, operation: Json) -> list[str]:
    """Return a script that keeps the ids of an answer for the requests after it."""
    good = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    schema = next(iter(good.get("content", {}).values()), {}).get("schema", {})
    members = api["components"]["schemas"][_name(schema)]["properties"] if "$ref" in schema else {}
    ids = [name for name in members if name.endswith("Id") and f"{{{name}}}" in "".join(api["paths"])]
    if not ids or operation["tags"] == ["System"]:
        return []
    return [
        "const answer = pm.response.code < 300 ? pm.response.json() : {};",
        *(f'if (answer.{name}) pm.collectionVariables.set("{name}", answer.{name});' for name in ids),
    ]


def _name(schema: Json) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]

"""Reads the settings from `MERCATO_…` variables, with every fault named at once."""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mercato.platform.settings import CLIENT_VARIABLES, PREFIX, TEST_PREFIX, Secret, Settings, SettingsError

_URLS: Final = {
    "database_url": ("postgresql://user:password@host/name", r"[a-z][a-z0-9+]*://.*"),
    "database_replica_url": ("postgresql://user:password@host/name", r"[a-z][a-z0-9+]*://.*"),
    "redis_url": ("redis://host:6379/0", r"(rediss?|unix)://.+"),
    "public_url": ("https://api.example.com", r"https?://[^\s/?#@]+(/[^\s?#]*)?"),
    "oidc_issuer": ("https://login.example.com/realm", r"https?://[^\s/?#@]+(/[^\s?#]*)?"),
    "traces_endpoint": ("http://collector:4318", r"https?://[^\s/?#]+(/[^\s?#]*)?"),
}
"""URLs: an example, and a pattern that reports a malformed one at the start rather than at its first use."""

_SWITCHES: Final = {"on": "true", "off": "false", "yes": "true", "no": "false"}


def load(environment: Mapping[str, str], **overrides: Any) -> Settings:
    """Return the settings of `MERCATO_…` variables; `overrides` that aren't None come from the command line.

    Raises SettingsError that lists every unknown name and every invalid value.
    """
    faults: list[str] = []
    values: dict[str, Any] = {}
    for variable in sorted(environment):
        is_ours = variable.startswith(PREFIX) and not variable.startswith(TEST_PREFIX)
        name = variable.removeprefix(PREFIX).lower()
        if is_ours and name in Settings.__struct_fields__:
            values[name] = environment[variable]
        elif is_ours and variable not in CLIENT_VARIABLES:
            faults.append(_unknown(variable, name))
    options = {name: value for name, value in overrides.items() if value is not None}
    settings: dict[str, Any] = {}
    for name, value in (values | options).items():
        label = f"--{name.replace('_', '-')}" if name in options else f"{PREFIX}{name.upper()}"
        try:
            settings[name] = _parse(name, value)
        except ValueError as fault:
            faults.append(f"{label}: {fault}")
    if faults:
        raise SettingsError("\n".join(faults))
    return Settings(**settings)


def _unknown(variable: str, name: str) -> str:
    import difflib  # not needed by a start without faults

    close = difflib.get_close_matches(name, Settings.__struct_fields__, n=1)
    hint = f"Did you mean {PREFIX}{close[0].upper()}?" if close else "Remove it from the environment."
    return f"{variable} is not a setting. {hint}"


def _parse(name: str, value: Any) -> Any:
    """Return the value of a setting. Raises ValueError, whose message never contains a value that may be secret."""
    kind = next(field.type for field in msgspec.structs.fields(Settings) if field.name == name)
    info = msgspec.inspect.type_info(kind)
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if value == "":
        if isinstance(info, msgspec.inspect.UnionType) and info.includes_none:
            return None
        # An empty host would listen on every address.
        raise ValueError("It is empty. Leave it out for the default.")
    if isinstance(info, msgspec.inspect.BoolType) and isinstance(value, str):
        value = _SWITCHES.get(value.lower(), value)
    try:
        parsed = msgspec.convert(value, kind, strict=False, dec_hook=_convert_ours)
    except msgspec.ValidationError:
        raise ValueError(_allowed(info)) from None
    if name in _URLS:
        example, pattern = _URLS[name]
        text = parsed.reveal() if isinstance(parsed, Secret) else parsed
        if re.fullmatch(pattern, text, re.IGNORECASE) is None:
            raise ValueError(f"Write it as {example}.")
    elif name in _LIST_CHECKS:
        faults = [fault for entry in parsed.split(",") if (fault := _LIST_CHECKS[name](entry.strip()))]
        if faults:
            raise ValueError(" ".join(faults))
    return parsed


def _allowed(info: msgspec.inspect.Type) -> str:
    """Return how to write a value of this type."""
    match info:
        case msgspec.inspect.BoolType():
            return "Write on or off."
        case msgspec.inspect.LiteralType(values=values):
            return f"Write one of: {', '.join(str(value) for value in values)}."
        case msgspec.inspect.IntType(ge=least, le=most):
            return f"Write a whole number from {least} to {most}."
        case msgspec.inspect.FloatType(ge=least, gt=above, le=most):
            lower = f"above {above}" if least is None else f"of at least {least}"
            return f"Write a number {lower}, at most {most}."
        case _:
            return "Write three capital letters, such as EUR."  # a currency


def _convert_ours(kind: type, value: Any) -> Any:
    if kind is Secret:
        return value if isinstance(value, Secret) else Secret(str(value))
    if kind is Path:
        return Path(value)
    raise TypeError(kind)


def _network_fault(text: str) -> str | None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return f"{text!r} is neither an address nor a network. Write them as 10.0.0.0/8, 2001:db8::1."
    return None


def _origin_fault(text: str) -> str | None:
    if re.fullmatch(r"https?://[^\s/?#@,*]+", text):
        return None
    return f"{text!r} is not an origin. Write it as https://shop.example.com, without a path."


_LIST_CHECKS: Final = {"trusted_proxies": _network_fault, "cors_origins": _origin_fault}
"""Return what is wrong with an entry of a comma-separated list, None if nothing is."""

"""Settings: frozen values that `load` reads from `MERCATO_…` variables, with every fault named at once.

`IngestSettings` are those by which catalogs are pulled and checked: the tools read them, so that they decide as the
service does, whose settings begin with them. Each field's description is its documentation.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from mercato_contract.texts import Secret

if TYPE_CHECKING:
    from mercato_outbound.results import PullLimits

PREFIX: Final = "MERCATO_"
TEST_PREFIX: Final = "MERCATO_TEST_"
"""Variables that only the project's own tests read; a developer's shell may have them."""

CLIENT_VARIABLES: Final = {"MERCATO_URL", "MERCATO_KEY"}
"""The address and key for `mercato_client`: the shell that starts a service may have them, too."""

MiB: Final = 1024 * 1024

Bytes = Annotated[int, Meta(ge=1, le=2**40)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]

NEARLY: Final = 0.9
"""How alike an unknown variable and a setting are that is a mistake, whoever reads the others."""


class SettingsError(ValueError):
    """The settings cannot be used; the message has a line for each fault."""


def doc(description: str, **bounds: Any) -> Meta:
    return Meta(description=description, **bounds)


class IngestSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How catalogs are pulled and checked."""

    allow_private_networks: Annotated[
        bool,
        doc("Let pulls and webhooks reach loopback and private addresses, and use http. For development."),
    ] = False
    default_currency: Annotated[
        str, doc("ISO 4217 code of catalogs without a currency.", pattern="^[A-Z]{3}$")
    ] = "USD"
    pull_connect_seconds: Annotated[Seconds, doc("Seconds a catalog pull may take to connect.")] = 5.0
    pull_seconds: Annotated[
        Seconds, doc("Seconds a catalog pull may take, retries and redirects included.")
    ] = 30.0
    pull_redirects: Annotated[int, doc("Redirects a catalog pull follows.", ge=0, le=20)] = 3
    pull_bytes: Annotated[Bytes, doc("Bytes a catalog may have on the wire.")] = 32 * MiB
    pull_decoded_bytes: Annotated[Bytes, doc("Bytes a catalog may have once decompressed.")] = 128 * MiB

    @property
    def pull_limits(self) -> "PullLimits":
        """The bounds of a catalog's pull."""
        from mercato_outbound.results import PullLimits  # not needed for a document in a file

        return PullLimits(
            subject="catalog URL",
            connect=self.pull_connect_seconds,
            total=self.pull_seconds,
            redirects=self.pull_redirects,
            max_raw=self.pull_bytes,
            max_decoded=self.pull_decoded_bytes,
        )


S = TypeVar("S", bound=IngestSettings)

_SWITCHES: Final = {"on": "true", "off": "false", "yes": "true", "no": "false"}


def _no_fault(_name: str, _value: Any) -> str | None:
    return None


def load(
    kind: type[S],
    environment: Mapping[str, str],
    *,
    fault_of: Callable[[str, Any], str | None] = _no_fault,
    all_are_known: bool = False,
    **overrides: Any,
) -> S:
    """Return the settings of `MERCATO_…` variables; `overrides` that aren't None come from the command line.

    `fault_of` a setting's name and value returns what is wrong with it. If the kind has all settings, every other
    variable is a fault; else one with nearly the name of a setting.
    Raises SettingsError that lists every fault.
    """
    faults: list[str] = []
    values: dict[str, Any] = {}
    for variable in sorted(environment):
        is_ours = variable.startswith(PREFIX) and not variable.startswith(TEST_PREFIX)
        name = variable.removeprefix(PREFIX).lower()
        if is_ours and name in kind.__struct_fields__:
            values[name] = environment[variable]
        elif is_ours and variable not in CLIENT_VARIABLES:
            faults += _unknown(kind, variable, name, all_are_known=all_are_known)
    options = {name: value for name, value in overrides.items() if value is not None}
    settings: dict[str, Any] = {}
    for name, value in (values | options).items():
        label = f"--{name.replace('_', '-')}" if name in options else f"{PREFIX}{name.upper()}"
        try:
            settings[name] = _parse(kind, name, value)
        except ValueError as error:
            faults.append(f"{label}: {error}")
            continue
        fault = None if settings[name] is None else fault_of(name, settings[name])
        if fault is not None:
            faults.append(f"{label}: {fault}")
    if faults:
        raise SettingsError("\n".join(faults))
    return kind(**settings)


def _unknown(kind: type[IngestSettings], variable: str, name: str, *, all_are_known: bool) -> list[str]:
    """Return the fault of a variable that the kind doesn't have, if it is one."""
    import difflib  # not needed by a start without faults

    close = difflib.get_close_matches(
        name, kind.__struct_fields__, n=1, cutoff=0.6 if all_are_known else NEARLY
    )
    if close:
        return [f"{variable} is not a setting. Did you mean {PREFIX}{close[0].upper()}?"]
    return [f"{variable} is not a setting. Remove it from the environment."] if all_are_known else []


def _parse(kind: type[IngestSettings], name: str, value: Any) -> Any:
    """Return the value of a setting. Raises ValueError, whose message never contains a value that may be secret."""
    expected = next(field.type for field in msgspec.structs.fields(kind) if field.name == name)
    info = msgspec.inspect.type_info(expected)
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
        return msgspec.convert(value, expected, strict=False, dec_hook=_convert_ours)
    except msgspec.ValidationError:
        raise ValueError(_allowed(info)) from None


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

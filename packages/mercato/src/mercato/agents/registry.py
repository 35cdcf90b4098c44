"""Every tool, by surface. A module with tools is listed here, and nowhere else."""

from collections.abc import Iterable, Mapping
from typing import Final

from mercato.agents import (
    explanations,
    items,
    menus,
    merchant_orders,
    merchant_stores,
    merchant_upkeep,
    ordering,
    orders,
    quoting,
    stores,
)
from mercato.agents.tools import Tool, Tools
from mercato.features.partners.model import Surface

MODULES: Final[Iterable[Tools]] = (
    stores.tools,
    menus.tools,
    items.tools,
    ordering.tools,
    quoting.tools,
    orders.tools,
    explanations.tools,
    merchant_stores.tools,
    merchant_orders.tools,
    merchant_upkeep.tools,
)
"""The tools of each module, in the order in which agents read them."""

TOOLS: Final[Mapping[Surface, Mapping[str, Tool]]] = {
    surface: {tool.name: tool for tools in MODULES for tool in tools if tool.surface is surface}
    for surface in Surface
}

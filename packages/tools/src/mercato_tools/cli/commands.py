"""The commands of `mercato`: one line each, imported only when it is called.

Apart from the package, because worker processes don't need cyclopts.
"""

from importlib.metadata import version
from typing import Final

from cyclopts import App, Parameter

from mercato_tools.cli.extensions import Command, extensions

TOOLS: Final = (
    Command("webhooks", "mercato_tools.cli.signatures:webhooks", "Webhooks: explain a signature."),
    Command("listen", "mercato_tools.cli.listen:listen", "Receive webhooks, verify and forward them."),
    Command("mcp", "mercato_tools.cli.mcp:mcp", "For AI agents: pass messages of stdio on to a service."),
    Command("catalog", "mercato_tools.cli.catalog:catalog", "Catalogs: lint, diff, show, import, template."),
    Command("price", "mercato_tools.cli.verify:price", "Prices: verify an order's."),
    Command("url", "mercato_tools.cli.verify:url", "URLs: doctor."),
    Command("certify", "mercato_tools.cli.certify:certify", "Certify a merchant."),
    Command("sandbox", "mercato_tools.cli.sandbox:sandbox", "Simulated partners: merchant, storefront."),
)

MORE: Final = (
    None
    if extensions()
    else "serve, demo, partner and more commands come with the service: pip install mercato"
)
"""What the help, and the refusal of an unknown command, add where only the tools are installed."""


def _commands() -> tuple[Command, ...]:
    """Return all commands; an extension's replace those of the tools."""
    added = {command.name: command for extension in extensions() for command in extension.commands}
    return (*added.values(), *(command for command in TOOLS if command.name not in added))


app = App(
    name="mercato",
    help="The commerce network you can run yourself.",
    help_epilogue=MORE,
    version=lambda: version("mercato-tools"),
    suppress_keyboard_interrupt=False,
    # Flags have no --no-… form.
    default_parameter=Parameter(negative=()),
)
for command in _commands():
    app.command(command.function, name=command.name, help=command.help)


def describe_in_full(command: App) -> None:
    """Let a command's own help be all of its docstring: the line in its group's list is only for that list."""
    if command.default_command is not None and command is not app:
        command.help = None

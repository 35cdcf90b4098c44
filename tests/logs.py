"""How tests log: as structlog does by itself, but with Python's own tracebacks."""

import structlog


def log_plainly() -> None:
    """Show tracebacks without each frame's variables, which take a second to write."""
    structlog.reset_defaults()
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], renderer])

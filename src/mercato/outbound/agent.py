"""The name under which the service calls others."""

from importlib.metadata import version

USER_AGENT = f"Mercato/{version('mercato')}"

"""Guarded calls to partners' servers: catalog pulls and webhooks. Nothing here knows commerce."""

from importlib.metadata import version

USER_AGENT = f"Mercato/{version('mercato')}"

"""Calls to other people's servers, guarded: catalog pulls and webhooks. Nothing here knows commerce."""

from importlib.metadata import version

USER_AGENT = f"Mercato/{version('mercato')}"

"""Guarded calls to partners' servers: catalog pulls and webhooks. Nothing here knows commerce."""

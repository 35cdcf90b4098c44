"""What a Mercato network says on the wire: types, codes, transitions, signatures. No I/O, nothing of the service."""

from importlib.metadata import version

USER_AGENT = f"Mercato/{version('mercato-contract')}"

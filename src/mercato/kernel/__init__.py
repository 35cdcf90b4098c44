"""What any service needs: settings, errors, wire, telemetry, database, jobs, outbound calls. It knows no commerce."""

from importlib.metadata import version

USER_AGENT = f"Mercato/{version('mercato')}"

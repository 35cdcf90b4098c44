"""What operators see of a process: its log lines, its figures, and who was at work."""

from mercato.kernel.telemetry.logs import configure_logs, tells_details
from mercato.kernel.telemetry.metrics import METRICS_TYPE, Lookups, Metrics

__all__ = ["METRICS_TYPE", "Lookups", "Metrics", "configure_logs", "tells_details"]

"""What operators see of a process: logs, metrics and traces."""

from mercato.platform.telemetry.logs import EventLog, configure_logs, is_debug_enabled
from mercato.platform.telemetry.metrics import METRICS_TYPE, Lookups, Metrics

__all__ = ["METRICS_TYPE", "EventLog", "Lookups", "Metrics", "configure_logs", "is_debug_enabled"]

"""Work to be done later: `enqueue` in your own transaction, a table of handlers, a `Worker` to run them."""

from mercato.jobs.entry import enqueue
from mercato.jobs.model import Again, Dead, Done, Handler, Handlers, Job, JobLost, Outcome
from mercato.jobs.queries import fence
from mercato.jobs.upkeep import DeadJob, Gauge, list_dead, list_gauges, revive
from mercato.jobs.worker import Worker

__all__ = [
    "Again",
    "Dead",
    "DeadJob",
    "Done",
    "Gauge",
    "Handler",
    "Handlers",
    "Job",
    "JobLost",
    "Outcome",
    "Worker",
    "enqueue",
    "fence",
    "list_dead",
    "list_gauges",
    "revive",
]

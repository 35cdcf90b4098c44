"""Work to be done later: `enqueue` in your own transaction, a table of handlers, a `Worker` to run them."""

from mercato.jobs.entry import enqueue
from mercato.jobs.model import Again, Dead, Done, Ending, Finished, Handler, Handlers, Job, JobLost, Outcome
from mercato.jobs.queries import delete_waiting, fence, finish, finish_all
from mercato.jobs.upkeep import DeadJob, Gauge, list_dead, list_gauges, revive
from mercato.jobs.worker import Worker

__all__ = [
    "Again",
    "Dead",
    "DeadJob",
    "Done",
    "Ending",
    "Finished",
    "Gauge",
    "Handler",
    "Handlers",
    "Job",
    "JobLost",
    "Outcome",
    "Worker",
    "delete_waiting",
    "enqueue",
    "fence",
    "finish",
    "finish_all",
    "list_dead",
    "list_gauges",
    "revive",
]

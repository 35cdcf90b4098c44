"""Work to be done later: `enqueue` in your own transaction, a table of handlers, a `Worker` to run them."""

from mercato.jobs.maintenance import DeadJob, Gauge, list_dead, list_gauges, revive
from mercato.jobs.model import Again, Dead, Done, Handler, Handlers, Job, JobLost, Outcome, Settled
from mercato.jobs.queue import Enqueued, delete_waiting, enqueue
from mercato.jobs.settle import fence, finish, put_back
from mercato.jobs.worker import Worker

__all__ = [
    "Again",
    "Dead",
    "DeadJob",
    "Done",
    "Enqueued",
    "Gauge",
    "Handler",
    "Handlers",
    "Job",
    "JobLost",
    "Outcome",
    "Settled",
    "Worker",
    "delete_waiting",
    "enqueue",
    "fence",
    "finish",
    "list_dead",
    "list_gauges",
    "put_back",
    "revive",
]

"""Work to be done later: `enqueue` in your own transaction, a table of handlers, a `Worker` to run them."""

from mercato.kernel.jobs.maintenance import DeadJob, Gauge, list_dead, list_gauges, revive
from mercato.kernel.jobs.model import Again, Dead, Done, Handler, Handlers, Job, JobLost, Outcome, Settled
from mercato.kernel.jobs.queue import Enqueued, delete_waiting, enqueue
from mercato.kernel.jobs.settle import fence, finish, put_back
from mercato.kernel.jobs.worker import Worker

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

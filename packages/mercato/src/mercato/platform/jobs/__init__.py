"""Background jobs: `enqueue` in your own transaction, a table of handlers, and a `Worker` that runs them."""

from mercato.platform.jobs.maintenance import (
    MAX_COUNTED,
    MAX_MEASURED,
    DeadJob,
    Revival,
    is_capped,
    list_dead,
    list_depths,
    revive,
    revive_job,
)
from mercato.platform.jobs.queue import Enqueued, delete_waiting, enqueue
from mercato.platform.jobs.run import Done, Handler, Handlers, Job, JobLost, JobOutcome, Settled
from mercato.platform.jobs.settle import fence, finish, put_back, put_off
from mercato.platform.jobs.worker import Worker

__all__ = [
    "MAX_COUNTED",
    "MAX_MEASURED",
    "DeadJob",
    "Done",
    "Enqueued",
    "Handler",
    "Handlers",
    "Job",
    "JobLost",
    "JobOutcome",
    "Revival",
    "Settled",
    "Worker",
    "delete_waiting",
    "enqueue",
    "fence",
    "finish",
    "is_capped",
    "list_dead",
    "list_depths",
    "put_back",
    "put_off",
    "revive",
    "revive_job",
]

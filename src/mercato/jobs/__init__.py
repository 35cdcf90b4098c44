"""Work to be done later: `enqueue` in your own transaction, a table of handlers, a `Worker` to run them."""

from mercato.jobs.entry import enqueue
from mercato.jobs.model import Again, Dead, Done, Handler, Handlers, Job, JobLost, Outcome
from mercato.jobs.queries import fence

__all__ = [
    "Again",
    "Dead",
    "Done",
    "Handler",
    "Handlers",
    "Job",
    "JobLost",
    "Outcome",
    "enqueue",
    "fence",
]

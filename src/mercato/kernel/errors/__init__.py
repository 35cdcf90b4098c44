"""Every refusal the service can make: one class per code, with its status and category written out.

The wire form (RFC 9457) is made in `mercato.http.problems` alone; nothing here knows HTTP beyond the number.
Categories and codes are the contract of the reference page `docs/reference/errors.md`.
"""
# ruff: noqa: F403  # each refusal is known as errors.Name; a second list of the names would only go stale

from mercato.kernel.errors.orders import *
from mercato.kernel.errors.problem import OTHER, OrderError, Problem, all_problems
from mercato.kernel.errors.requests import *
from mercato.kernel.errors.resources import *

__all__ = ["OTHER", "OrderError", "Problem", "all_problems"]

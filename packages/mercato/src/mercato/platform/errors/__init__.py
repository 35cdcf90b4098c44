"""Every refusal of the service: one class per code, with its status and category written out.

`kernel.wire.problem` renders them (RFC 9457); nothing here knows HTTP beyond the status. Codes and categories are a
contract: see `docs/reference/errors.md`.
"""
# ruff: noqa: F403  # refusals are used as errors.Name; a second list of the names would become outdated

from mercato.platform.errors.orders import *
from mercato.platform.errors.problem import Problem, all_problems
from mercato.platform.errors.requests import *
from mercato.platform.errors.resources import *
from mercato_contract.problems import OTHER, OrderError

__all__ = ["OTHER", "OrderError", "Problem", "all_problems"]

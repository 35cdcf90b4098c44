"""The types of requests, answers and webhooks, for annotations and calls: those of the contract."""
# ruff: noqa: F403, PLC0414  # every name of these modules is an export

from mercato_contract.carts import *
from mercato_contract.catalogs import *
from mercato_contract.console import *
from mercato_contract.debugger.findings import SignatureExplanation as SignatureExplanation
from mercato_contract.discovery import *
from mercato_contract.events import *
from mercato_contract.feeds import *
from mercato_contract.orders import *
from mercato_contract.placements import *
from mercato_contract.problems import *
from mercato_contract.reports import *
from mercato_contract.requests import *
from mercato_contract.stores import *
from mercato_contract.webhooks import *

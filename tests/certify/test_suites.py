"""What holds for the checks of both suites."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.certify import merchant_mutants, storefront_mutants
from tests.certify.receiver_mutants import UNMUTATED

from mercato.console import guides
from mercato.local.storefront.certification import STOREFRONT
from mercato_tools.certify.merchant.certification import MERCHANT
from mercato_tools.certify.suite import Suite

SUITES: dict[str, tuple[Suite[Any], Mapping[str, Any]]] = {
    "merchant": (MERCHANT, merchant_mutants.MUTANTS),
    "storefront": (STOREFRONT, storefront_mutants.MUTANTS),
}


@pytest.mark.parametrize("name", SUITES)
def test_every_check_has_a_mutant_or_a_reason(name: str):
    suite, mutants = SUITES[name]
    unmutated = {f"{name}.{check}" for check in UNMUTATED}
    assert mutants.keys() | unmutated == suite.checks.keys()
    assert not mutants.keys() & unmutated


@pytest.mark.parametrize("suite", [MERCHANT, STOREFRONT], ids=["merchant", "storefront"])
def test_ids_and_titles_fit_on_a_line_of_eighty_columns(suite: Suite[Any]):
    for check in suite.checks.values():
        assert len(check.id.rpartition(".")[2]) <= 27, check.id
        assert len(check.title) <= 44, check.title
        assert check.proves
        assert check.advice
        guide = check.section.removeprefix("Guide: ")
        assert guide in {guides.get_guide(name).title for name in guides.names()}, check.id


@pytest.mark.parametrize("suite", [MERCHANT, STOREFRONT], ids=["merchant", "storefront"])
def test_every_need_is_a_check(suite: Suite[Any]):
    assert {need for check in suite.checks.values() for need in check.needs} <= suite.checks.keys()

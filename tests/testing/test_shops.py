"""The sandbox's shops pass the ingest's own rules, and the broken one fails with what it is said to."""

import json
from typing import Any
from uuid import UUID

import pytest

from mercato.local.demo.merchant import BROKEN_PLACE
from mercato_catalog.validation.findings import Findings
from mercato_catalog.validation.validate import ValidDocument, validate
from mercato_client.testing import shops

ONBOARDING = UUID("0190f5fe-7e3b-7ccc-8000-000000000001")


def found(document: Any) -> tuple[ValidDocument | None, Findings]:
    return validate(json.dumps(document).encode(), onboarding_id=ONBOARDING, default_currency="USD")


@pytest.mark.parametrize(
    ("document", "currency"),
    [(shops.pizzeria(), "EUR"), (shops.ramen_house(), "JPY"), (shops.grocery(), "USD")],
)
def test_the_good_shops_have_no_faults(document: Any, currency: str) -> None:
    valid, findings = found(document)
    assert valid is not None, findings.faults()
    assert valid.source.currency == currency


def test_shops_whose_ids_are_uuids_have_no_warnings_either() -> None:
    for document in (shops.pizzeria(), shops.ramen_house()):
        assert found(document)[1].warnings() == ()


def test_the_broken_grocery_has_exactly_its_one_fault() -> None:
    valid, findings = found(shops.grocery(broken=True))
    assert valid is None
    assert [fault.path for fault in findings.faults()] == [BROKEN_PLACE]
    assert shops.MISSING_ARTICLE in findings.faults()[0].message


def test_the_documents_show_modifier_groups_hours_and_nested_sections() -> None:
    assert all(
        item["modifierGroupIds"] for item in shops.pizzeria()["items"].values() if "description" in item
    )
    assert all(catalog["availability"] for catalog in shops.ramen_house()["catalogs"])
    nested = shops.grocery()["sections"]["produce"]["sectionIds"]
    assert nested == ["fruit", "vegetables"]

"""The statements of docs/scaling.md about the schema."""

import re
from pathlib import Path

from mercato.platform.db.tables import metadata

PAGE = Path(__file__).parents[2] / "docs/scaling.md"
NOT_WRITTEN_BY_REQUESTS = {"partners", "write_probes"}


def test_the_tables_without_a_partners_id_are_those_that_the_page_names():
    [said] = re.findall(r"tables don't, and are cut by(.*?)A storefront's rows", PAGE.read_text(), re.DOTALL)
    without = {table.name for table in metadata.sorted_tables if "partner_id" not in table.c}
    assert set(re.findall(r"`(\w+)`", said)) == without - NOT_WRITTEN_BY_REQUESTS

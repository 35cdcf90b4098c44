"""The statements of docs/scaling.md about the schema."""

import re
from pathlib import Path

from mercato.platform.db.tables import metadata

PAGE = Path(__file__).parents[2] / "docs/scaling.md"
NOT_WRITTEN_BY_REQUESTS = {"key_checks", "partners", "write_probes"}


def test_the_tables_without_a_partners_id_are_those_that_the_page_names():
    text = " ".join(PAGE.read_text().split())
    [sentences] = re.findall(r"tables don't have it; divide them by(.*?)A storefront's rows", text)
    without = {table.name for table in metadata.sorted_tables if "partner_id" not in table.c}
    assert set(re.findall(r"`(\w+)`", sentences)) == without - NOT_WRITTEN_BY_REQUESTS

"""What a feature declares of a table of a feature above it is as that feature declares it."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from sqlalchemy import Table, TableClause

import mercato.features
from mercato.platform.db.tables import metadata


def partial_tables() -> Iterator[tuple[str, TableClause]]:
    for module in pkgutil.walk_packages(mercato.features.__path__, "mercato.features."):
        if module.name.rpartition(".")[2] == "tables":
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, TableClause) and not isinstance(value, Table):
                    yield module.name, value


PARTIAL = [found for found in partial_tables() if found[1].name in metadata.tables]


def test_the_tables_that_are_declared_in_part_are_found():
    assert {
        ("mercato.features.events.tables", "orders"),
        ("mercato.features.catalogs.tables", "stores"),
    } <= {(module, table.name) for module, table in PARTIAL}


@pytest.mark.parametrize(("module", "part"), PARTIAL)
def test_the_columns_of_a_table_declared_in_part_are_those_of_the_table(module: str, part: TableClause):
    whole = metadata.tables[part.name]
    assert {column.name: repr(column.type) for column in part.columns} == {
        column.name: repr(whole.columns[column.name].type) for column in part.columns
    }, module

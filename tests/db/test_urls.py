from pathlib import Path

import pytest

from mercato.db.engine import Database


@pytest.mark.parametrize("url", ["mysql://somewhere/x", "http:///x"])
def test_a_url_of_another_database_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///"):
        Database.open(url)


def test_a_path_is_a_sqlite_file(tmp_path: Path) -> None:
    assert Database.open(str(tmp_path / "x.db")).url == f"sqlite:///{tmp_path / 'x.db'}"

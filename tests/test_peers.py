"""`make bench-peers` compares with what can run here, and says in words what can't."""

import importlib.util
import shutil

import pytest
from benchmarks.peers import vendure


def test_without_node_vendure_is_skipped_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert not vendure.is_ready()
    assert "Node.js" in vendure.MISSING


def test_vendure_is_told_before_it_is_loaded_to_report_nothing_to_its_makers():
    lines = (vendure.HERE / "server.js").read_text().splitlines()
    told = lines.index("process.env.VENDURE_DISABLE_TELEMETRY = 'true';")
    assert told < next(number for number, line in enumerate(lines) if "@vendure/core" in line)


@pytest.mark.skipif(importlib.util.find_spec("fastapi") is None, reason="make .venv/.peers installs FastAPI")
def test_the_plain_application_prices_and_places_as_the_service_does():
    from benchmarks.peers.__main__ import application, check_equal
    from benchmarks.trade import trading

    with trading() as trade, application(trade, None, in_memory=False) as (_process, port):
        check_equal(trade, port, trade.add(), trade.order())

"""`make bench-peers` compares with what can run here, and says in words what can't."""

import shutil

import pytest
from benchmarks.peers import vendure


def test_without_node_vendure_is_skipped_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert not vendure.is_ready()
    assert "Node.js" in vendure.MISSING

"""Our own faults must show in our own tests."""

import pytest


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("PHASEMETER_STRICT", "1")

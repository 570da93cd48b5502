"""Imports are noticed and otherwise as ever."""

import importlib
import importlib.resources
import importlib.util
import sys

import pytest

from phasemeter.clients.import_watch import ImportWatch


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A package with a data file and a counter of its executions."""
    package = tmp_path / "watched_here"
    package.mkdir()
    (package / "__init__.py").write_text("import watched_here.part\nvalue = __spec__.loader.name\n")
    (package / "part.py").write_text("")
    (package / "data.txt").write_text("d")
    monkeypatch.syspath_prepend(tmp_path)
    yield "watched_here"
    for name in [name for name in sys.modules if name.startswith("watched_here")]:
        del sys.modules[name]


@pytest.fixture
def watch_of():
    watches = []

    def watch(names, on_import):
        watches.append(ImportWatch(names, on_import))
        watches[-1].start()
        return watches[-1]

    yield watch
    for one in watches:
        one.stop()


def test_the_call_comes_when_the_module_is_ready(module, watch_of):
    """Once, with everything in it; its loader is its own, for its code too."""
    seen = []
    watch_of([module], lambda one: seen.append((one, one.value)))
    imported = importlib.import_module(module)
    importlib.import_module(module)

    assert seen == [(imported, module)]
    assert type(imported.__loader__).__name__ == "SourceFileLoader"
    assert imported.__spec__.loader is imported.__loader__
    assert importlib.resources.files(module).joinpath("data.txt").read_text() == "d"


def test_only_looking_for_a_module_is_no_import(module, watch_of):
    seen = []
    watch_of([module], seen.append)
    spec = importlib.util.find_spec(module)

    assert spec.origin.endswith("__init__.py")
    assert spec.loader.get_source(module).startswith("import")
    assert seen == []
    assert importlib.util.find_spec("no_such_module_here") is None


def test_two_watches_both_see_it(module, watch_of):
    """Whoever asks all finders in turn does not go round in circles."""
    seen = []
    watch_of([module], lambda one: seen.append("first"))
    watch_of([module], lambda one: seen.append("second"))
    importlib.import_module(module)

    assert sorted(seen) == ["first", "second"]


def test_a_fault_of_ours_does_not_reach_the_import(module, watch_of, monkeypatch):
    monkeypatch.delenv("PHASEMETER_STRICT")

    def fail(one):
        raise RuntimeError

    watch_of([module], fail)

    assert importlib.import_module(module).value == module


def test_a_module_that_fails_is_not_reported(module, watch_of, tmp_path):
    seen = []
    watch_of([module], seen.append)
    (tmp_path / module / "__init__.py").write_text("raise ImportError('broken')")

    with pytest.raises(ImportError, match="broken"):
        importlib.import_module(module)
    assert seen == []


def test_a_stopped_watch_sees_nothing(module, watch_of):
    seen = []
    before = list(sys.meta_path)
    watch_of([module], seen.append).stop()
    importlib.import_module(module)

    assert sys.meta_path == before
    assert seen == []

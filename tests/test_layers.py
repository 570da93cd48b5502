"""The import table: arrows point down only, and the core knows the standard library only."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "phasemeter"

# Lowest first. A folder may import itself and the folders of lower lines.
LAYERS = (
    ("core",),
    ("dialects",),
    ("metrics",),
    ("testing", "transports"),
    ("sinks",),
    ("settings",),
    ("clients",),
    ("sdk",),
    ("ready_clients",),
    ("otel_instrumentor",),
    ("lab", "telemetry"),
    ("load",),
    ("analysis",),
    ("experiments",),
    ("report",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
STANDARD_LIBRARY_ONLY = ("core", "dialects", "metrics", "transports", "clients", "testing")
LAZY_HOME = "__init__"  # the package's own __init__ names everything, lazily


def unit_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            if node.module == "phasemeter":
                yield from (f"phasemeter.{alias.name}" for alias in node.names)


FILES = sorted(path for path in SOURCE.rglob("*.py") if unit_of(path) != LAZY_HOME)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_below(path):
    """Each folder has its line in the table; nothing imports upwards or across."""
    unit = unit_of(path)
    assert unit in RANK, f"{unit} has no line in the table of layers"
    for name in imports_of(path):
        package, _, rest = name.partition(".")
        if package != "phasemeter" or not rest:
            continue
        other = rest.partition(".")[0]
        if other not in RANK:
            continue  # a name of the package itself
        allowed = other == unit or RANK[other] < RANK[unit]
        assert allowed, f"{unit} imports {name}"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if unit_of(path) in STANDARD_LIBRARY_ONLY],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_the_lower_layers_know_the_standard_library_only(path):
    """Third-party modules come in at sinks and above."""
    for name in imports_of(path):
        root = name.partition(".")[0]
        assert root == "phasemeter" or root in sys.stdlib_module_names, (
            f"{path.name} imports {name}"
        )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_opentelemetry_comes_in_at_its_sink_only(path):
    """And there by its API only."""
    for name in imports_of(path):
        if name.partition(".")[0] == "opentelemetry":
            assert path.name.startswith("otel")
            assert not name.startswith("opentelemetry.sdk")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_is_longer_than_400_lines(path):
    """One idea a file."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400

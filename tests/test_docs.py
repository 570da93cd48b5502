"""The documents say what the code says."""

import re
from pathlib import Path

from phasemeter.metrics import BUILTIN

ROOT = Path(__file__).parents[1]


def test_the_table_of_metrics_is_that_of_the_code():
    text = (ROOT / "docs" / "metrics.md").read_text()
    table = text.partition("## Metrics")[2].partition("## Outcomes")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (\w+) \|$", table, re.MULTILINE)

    assert rows == [(one.name, one.formula, one.population) for one in BUILTIN]


def test_the_readme_names_commands_that_exist():
    from phasemeter.cli import cli

    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"\bphasemeter (\w+)", text.partition("```")[2])) - {"import"}

    assert named & set(cli.list_commands(None))  # type: ignore[arg-type]
    assert named <= set(cli.list_commands(None)), named  # type: ignore[arg-type]


def test_make_targets_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text()

    for target in re.findall(r"`make (\w+)`", (ROOT / "README.md").read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target

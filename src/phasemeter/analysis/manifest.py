"""The manifest of a run folder, and the refusal of what this version cannot read."""

from __future__ import annotations

import json
from pathlib import Path

from phasemeter.core.errors import UsageError

RUN_SCHEMA_VERSION = 1


def load_manifest(path: Path) -> dict[str, object]:
    """Return the content of a run folder's `run.json`.

    Raises:
        UsageError: If the folder is missing, holds no run, or was written by a newer phasemeter.
    """
    hint = "pass the folder that `phasemeter load` or `phasemeter interference` wrote"
    if not path.is_dir():
        msg = f"run: {path} is not there; {hint}"
        raise UsageError(msg)
    try:
        manifest = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        msg = f"run: {path} holds no run.json; {hint}"
        raise UsageError(msg) from None
    except (ValueError, OSError) as fault:
        msg = f"run: {path / 'run.json'} cannot be read ({fault}); {hint}"
        raise UsageError(msg) from fault
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if not isinstance(schema, int) or schema < 1:
        msg = f"run: {path / 'run.json'} has no schema number, so it is no run; {hint}"
        raise UsageError(msg)
    refuse_newer(schema, RUN_SCHEMA_VERSION, path / "run.json")
    return dict(manifest)


def refuse_newer(schema: int, known: int, path: Path) -> None:
    """Refuse a file of a later schema: read as if it were ours, it could give wrong figures.

    Raises:
        UsageError: If `schema` is above `known`.
    """
    if schema > known:
        msg = f"run: {path} has schema {schema}, this phasemeter reads up to {known}; upgrade it"
        raise UsageError(msg)

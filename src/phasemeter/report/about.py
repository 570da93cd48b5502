"""What, when and where of a run, as labelled lines from its manifest. Missing entries are left out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from phasemeter.analysis.records import RunRecords

CALIBRATE = "calibrate"
"""Kind of a run of `phasemeter calibrate`."""


def about_run(run: RunRecords) -> list[tuple[str, str]]:
    """Return (label, value) lines in the order of the page's header."""
    manifest = run.manifest
    target, host = _mapping(manifest.get("target")), _mapping(manifest.get("host"))
    lines = (
        ("run", _text(manifest.get("run_id"))),
        ("started", _when(manifest.get("created_unix_ns"))),
        ("model", _text(target.get("model"))),
        ("GPUs", _gpus(target.get("gpus"))),
        ("seed", _text(manifest.get("seed"))),
        ("phasemeter", _text(manifest.get("phasemeter"))),
        ("server", _listed(target.get("urls"))),
        ("client", _client(host)),
        ("command", _command(manifest.get("command"))),
    )
    return [(label, value) for label, value in lines if value]


def kind_of(run: RunRecords) -> str:
    """Return `load`, `interference`, `calibrate`, `plan`, or `records` for an application's file."""
    return _text(run.manifest.get("kind")) or "load"


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _listed(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return _text(value)


def _command(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return shlex.join(map(str, value))
    return _text(value)


def _when(unix_ns: object) -> str:
    if not isinstance(unix_ns, int):
        return ""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _gpus(value: object) -> str:
    told = {arm: number for arm, number in _mapping(value).items() if number is not None}
    return ", ".join(f"{arm}: {number}" for arm, number in told.items())


def _client(host: Mapping[str, object]) -> str:
    cores = host.get("cores")
    parts = (
        _text(host.get("cpu_model")),
        "" if cores is None else f"{cores} cores",
        _prefixed("kernel ", host.get("kernel")),
        _prefixed("governor ", host.get("governor")),
        _prefixed("Python ", host.get("python")),
    )
    return ", ".join(part for part in parts if part)


def _prefixed(prefix: str, value: object) -> str:
    return "" if value is None else f"{prefix}{value}"

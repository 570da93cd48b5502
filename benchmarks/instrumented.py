"""A pytest plugin that has `phasemeter.instrument()` on, and counts what was timed: `-p benchmarks.instrumented`."""

from __future__ import annotations

import os
from pathlib import Path

import phasemeter

TIMED: list[str] = []
METER = phasemeter.Meter(
    sinks=[
        phasemeter.HdrSink(),
        phasemeter.OtelSink(),
        phasemeter.CallbackSink(lambda timeline: TIMED.append(timeline.request_id)),
    ]
)


def pytest_configure(config: object) -> None:
    del config
    phasemeter.instrument(meter=METER)


def pytest_unconfigure(config: object) -> None:
    del config
    phasemeter.uninstrument()
    METER.close()
    path = os.environ.get("PHASEMETER_UPSTREAM_COUNT")
    if path:
        Path(path).write_text(str(len(TIMED)))

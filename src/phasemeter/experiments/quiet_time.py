"""Time without injections, cut into spans that a longest gap can be compared with.

There are two kinds: the baseline, and what lies between injections (up to the end of recovery). The second is
quiet once the last gap that an injection could stretch has ended, and as near to the injections as can be:
a machine that became slower or faster after the baseline did so there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from phasemeter.experiments.blocks import BLOCK_NS
from phasemeter.experiments.exposure import Injection
from phasemeter.experiments.inject_run import Gaps, InjectRun

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]
    Block = tuple[Times, ...]
    """Gaps in ns that overlap each span of one block of time."""

_AFTER = ("inject", "recovery")


def spans_before(run: InjectRun, instance: str, span_ns: int) -> list[Block]:
    """Cut the baseline into whole spans; return the gaps that overlap each, by block of time."""
    mark = run.marks.get("baseline")
    if mark is None:
        return []
    gaps = run.phase_gaps("baseline", instance)
    return _spans(gaps, [(mark.start_ns, mark.end_ns)], span_ns)


def spans_between(
    run: InjectRun, instance: str, injections: Iterable[Injection], span_ns: int
) -> list[Block]:
    """Cut the quiet time between a run's injections likewise."""
    marks = [mark for phase in _AFTER if (mark := run.marks.get(phase)) is not None]
    gaps = run.gaps.get(instance)
    if not marks or gaps is None:
        return []
    mine = [one for one in injections if one.run is run and one.instance == instance]
    busy = sorted(_disturbed(one, gaps) for one in mine)
    quiet_ns, end_ns = min(mark.start_ns for mark in marks), max(mark.end_ns for mark in marks)
    times = []
    for from_ns, to_ns in (*busy, (end_ns, end_ns)):
        times.append((quiet_ns, min(from_ns, end_ns)))
        quiet_ns = max(quiet_ns, to_ns)
    return _spans(gaps, times, span_ns)


def _disturbed(injection: Injection, gaps: Gaps) -> tuple[int, int]:
    """Return from when to when the gaps last that overlap an injection, itself included."""
    start_ns, end_ns = injection.start_ns, injection.end_ns
    exposed = gaps.overlapping(start_ns, end_ns)
    return (
        min(start_ns, int(exposed.starts_ns.min(initial=start_ns))),
        max(end_ns, int(exposed.ends_ns.max(initial=end_ns))),
    )


def _spans(gaps: Gaps, times: Sequence[tuple[int, int]], span_ns: int) -> list[Block]:
    blocks: dict[int, list[Times]] = {}
    for from_ns, to_ns in times:
        for start_ns in range(from_ns, to_ns - span_ns + 1, span_ns):
            inside = gaps.overlapping(start_ns, start_ns + span_ns).lengths_ns
            if inside.size:
                blocks.setdefault(start_ns // BLOCK_NS, []).append(inside)
    return [tuple(block) for block in blocks.values()]

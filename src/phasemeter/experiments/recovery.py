"""How long after an injection's first token the gaps beside it are back within the baseline band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasemeter.analysis.injection import Recovery
from phasemeter.core.clock import NS_PER_MS
from phasemeter.experiments.exposure import Injection
from phasemeter.experiments.inject_run import Gaps, InjectRun

_BAND_FACTOR = 1.5


def band_ns(run: InjectRun, instance: str) -> float | None:
    """Return the upper end of the baseline band: p99 of its gaps, or 1.5 medians if that is more."""
    lengths_ns = run.phase_gaps("baseline", instance).lengths_ns
    if not lengths_ns.size:
        return None
    p50, p99 = np.quantile(lengths_ns, (0.5, 0.99), method="inverted_cdf")
    return float(max(p99, _BAND_FACTOR * p50))


def recovery_of(injections: Sequence[Injection]) -> Recovery:
    """Return how long the effect of injections lasted, each followed until the next one's sending."""
    bands: list[float] = []
    steps: list[float] = []
    times_ns: list[float] = []
    followed = not_recovered = 0
    for number, one in enumerate(injections):
        band = band_ns(one.run, one.instance)
        if not one.overlapped or band is None:
            continue
        later = (
            other.start_ns
            for other in injections[number + 1 :]
            if other.run is one.run and other.instance == one.instance
        )
        until_ns = min(next(later, _end_ns(one.run)), _end_ns(one.run))
        if until_ns <= one.end_ns:
            continue
        outcome = _follow(one, band, until_ns)
        if outcome is None:
            continue
        bands.append(band)
        followed += 1
        if outcome == (None, None):
            not_recovered += 1
        else:
            steps.append(outcome[0] or 0.0)
            times_ns.append(outcome[1] or 0.0)
    return Recovery(
        band_ms=float(np.median(bands)) / NS_PER_MS if bands else None,
        followed=followed,
        not_recovered=not_recovered,
        steps_p50=float(np.median(steps)) if steps else None,
        steps_max=max(steps, default=None),
        ms_p50=float(np.median(times_ns)) / NS_PER_MS if times_ns else None,
        ms_max=max(times_ns) / NS_PER_MS if times_ns else None,
    )


def _end_ns(run: InjectRun) -> int:
    return max(mark.end_ns for mark in run.marks.values())


def _follow(
    injection: Injection, band: float, until_ns: int
) -> tuple[float | None, float | None] | None:
    """Return (gaps above the band, ns), the median stream's; (None, None) where not over in time.

    None where no stream could be followed.
    """
    run, end_ns = injection.run, injection.end_ns
    step_ns = float(np.median(run.phase_gaps("baseline", injection.instance).lengths_ns))
    # The step that gave the first token gave the streams theirs: what began with it comes after.
    begun_ns = end_ns - step_ns / 2
    after = run.gaps[injection.instance].overlapping(int(begun_ns), until_ns)
    kept = after.starts_ns >= begun_ns
    gaps = Gaps(after.starts_ns[kept], after.ends_ns[kept], after.stream[kept])
    counted: list[float] = []
    waited: list[float] = []
    open_ended = 0
    for stream in np.unique(gaps.stream).tolist():
        mine = gaps.stream == stream
        lengths, starts = gaps.lengths_ns[mine], gaps.starts_ns[mine]
        within = np.flatnonzero(lengths <= band)
        if within.size:
            counted.append(float(within[0]))
            waited.append(max(float(starts[within[0]] - end_ns), 0.0))
        elif gaps.ends_ns[mine][-1] > until_ns:
            open_ended += 1
    if open_ended > len(counted):
        return None, None
    return (float(np.median(counted)), float(np.median(waited))) if counted else None

"""What else was going on in a run, as seen from its plan and its workers; see `detectors`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

import numpy as np

from phasemeter.analysis.health import merged_lag
from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.shape import Detection
from phasemeter.analysis.ttft_curve import curve_of, prompt_and_wait
from phasemeter.core.clock import NS_PER_MS, NS_PER_S
from phasemeter.core.timeline import Outcome
from phasemeter.load.plan import planned_arrivals_ns

STALL_MS = 100
"""A shorter pause happens on any machine that does other things too."""

MISSED_SHARE = 0.01
SLOT_LEAST_NS = 5 * NS_PER_MS
"""A request that leaves less late than this took its slot, however short the interval."""

ANSWERED_SHARE = 0.9
FEWEST_ARRIVALS = 20

FAST_SHARE = 0.5
"""A first token in less than this share of the calibrated time is not noise: queues only add to it."""

FAST_LEAST_MS = 20.0
FAST_REQUESTS_SHARE = 0.05


def client_stalls(run: RunRecords) -> Detection | None:
    """The loop of a load worker stood still, because it was stopped or had too much to do."""
    worst: tuple[float, int, float] = (0.0, 0, 0.0)
    for name in ("wake_lag", "loop_lag"):
        histogram = merged_lag(run.workers, name)
        counts = np.ctypeslib.as_array(histogram.counts)
        indexes = np.flatnonzero(counts).tolist()
        stalls_ms = [
            (histogram.get_value_from_index(index) / 1_000, int(counts[index])) for index in indexes
        ]
        long_ms = [(ms, number) for ms, number in stalls_ms if ms >= STALL_MS]
        total_ms = sum(ms * number for ms, number in long_ms)
        longest_ms = max((ms for ms, _ in long_ms), default=0.0)
        worst = max(worst, (total_ms, sum(number for _, number in long_ms), longest_ms))
    total_ms, times, longest_ms = worst
    if not times:
        return None
    whole_s = sum(worker.wall_s or 0.0 for worker in run.workers)
    return Detection(
        kind="client_stalls",
        text=(
            f"the client's loop stood still {_times(times)}, for up to {longest_ms:,.0f} ms: "
            "requests due meanwhile left late, and events that piled up have no gap of their own."
        ),
        share=min(total_ms / 1_000 / whole_s, 1.0) if whole_s else 1.0,
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def arrival_slots_missed(run: RunRecords) -> Detection | None:
    """Requests of an open loop left after the next one should have, or never."""
    planned_ns = planned_arrivals_ns(_plan(run))
    if len(planned_ns) < 2:
        return None
    interval_ns = (planned_ns[-1] - planned_ns[0]) / (len(planned_ns) - 1)
    slot_ns = max(interval_ns, SLOT_LEAST_NS)
    late_ns = [
        timeline.started_ns - timeline.intended_ns
        for timeline in run.timelines
        if timeline.intended_ns is not None and timeline.started_ns - timeline.intended_ns > slot_ns
    ]
    never = max(len(planned_ns) - len(run.issued), 0)
    share = (len(late_ns) + never) / len(planned_ns)
    if share <= MISSED_SHARE:
        return None
    lateness = f", up to {max(late_ns) / NS_PER_MS:,.0f} ms late" if late_ns else ""
    return Detection(
        kind="arrival_slots_missed",
        text=(
            f"{len(late_ns)} of {len(planned_ns)} arrivals left after their slot of "
            f"{slot_ns / NS_PER_MS:,.1f} ms{lateness}, {never} never left: the offered load was not "
            "the planned one. ttft_response and e2e_response count from the plan."
        ),
        share=share,
    )


def rate_not_achieved(run: RunRecords) -> Detection | None:
    """The server answered fewer requests per second than arrived, so its queue grew.

    Looks at the second half of the arrivals: as many answers should end in it as requests arrive, once
    the run is in a steady state.
    """
    if not planned_arrivals_ns(_plan(run)):
        return None
    arrivals_ns = np.sort([issued.started_ns for issued in run.issued])
    if len(arrivals_ns) < FEWEST_ARRIVALS:
        return None
    end_ns = int(arrivals_ns[-1])
    middle_ns = (int(arrivals_ns[0]) + end_ns) // 2
    ended_ns = [one.ended_ns for one in run.timelines if one.outcome is Outcome.OK]
    arrived = int(np.count_nonzero(arrivals_ns > middle_ns))
    answered = sum(middle_ns < t_ns <= end_ns for t_ns in ended_ns)
    by_chance = 3 * arrived**0.5
    if answered >= ANSWERED_SHARE * arrived or arrived - answered <= by_chance:
        return None
    half_s = (end_ns - middle_ns) / NS_PER_S
    return Detection(
        kind="rate_not_achieved",
        text=(
            f"over the second half of the load {arrived / half_s:,.1f} requests/s arrived and "
            f"{answered / half_s:,.1f} were answered: the server fell behind, or the run is too short "
            "for its latencies. The latencies depend on how long the load lasted."
        ),
        share=1 - answered / arrived,
    )


def prefills_far_too_fast(run: RunRecords) -> Detection | None:
    """First tokens came far sooner than new prompts of that length take: they were cached.

    For servers that do not tell their cached tokens; needs a curve measured with new prompts.
    """
    curve = curve_of(run.manifest)
    if curve is None:
        return None
    waits = [told for one in run.timelines if (told := prompt_and_wait(one)) is not None]
    judged = [
        (ms, curve.at_ms(tokens)) for tokens, ms in waits if curve.at_ms(tokens) >= FAST_LEAST_MS
    ]
    fast = [ms / usual_ms for ms, usual_ms in judged if ms < FAST_SHARE * usual_ms]
    if not fast or len(fast) < FAST_REQUESTS_SHARE * len(judged):
        return None
    return Detection(
        kind="prefix_cache_hits",
        text=(
            f"{len(fast)} of {len(judged)} first tokens came in {median(fast):.0%} (p50) of the time "
            "that new prompts of their length took in the calibration: the server had them in a cache."
        ),
        share=len(fast) / len(judged),
    )


def _plan(run: RunRecords) -> Mapping[str, object]:
    plan = run.manifest.get("plan")
    is_load = run.manifest.get("kind") == "load"
    return plan if is_load and isinstance(plan, Mapping) else {}


RUN_DETECTORS: tuple[Callable[[RunRecords], Detection | None], ...] = (
    rate_not_achieved,
    arrival_slots_missed,
    client_stalls,
    prefills_far_too_fast,
)


def detect_in_run(run: RunRecords) -> list[Detection]:
    """Run every detector that looks at a run as a whole."""
    found = (detector(run) for detector in RUN_DETECTORS)
    return [detection for detection in found if detection is not None]

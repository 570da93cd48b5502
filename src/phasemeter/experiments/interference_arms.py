"""What each part of the experiment measured in itself: counts, percentiles, rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phasemeter.analysis.finding import Arm
from phasemeter.analysis.records import Mark
from phasemeter.analysis.shape import ClassSummary
from phasemeter.analysis.summary import summarise_group
from phasemeter.analysis.throughput import throughput
from phasemeter.analysis.window import Window
from phasemeter.core.timeline import Timeline
from phasemeter.experiments.interference_records import InterferenceRecords, Part
from phasemeter.experiments.ramp_plan import users_of

_OF_GAPS = ("gap", "itl", "stall")


def arm_of(records: InterferenceRecords, part: Part) -> Arm:
    """Return the figures of one part.

    Requests belong to the phase in which they were started, gaps to the phase in which they ended: a
    stream that lasts from one phase into the next is cut between them.
    """
    marks = records.marks(part)
    timelines, issued = records.responses(part)
    started = summarise_group(
        [one for one in timelines if _within(one.started_ns, marks)],
        [one for one in issued if _within(one.started_ns, marks)],
    )
    cut = summarise_group([_events_within(one, marks) for one in timelines], ())
    nothing = summarise_group((), ())
    classes: dict[str, ClassSummary] = {}
    for name, whole in cut["classes"].items():
        gaps = {one: whole["metrics"][one] for one in _OF_GAPS}
        if name not in started["classes"] and not gaps["gap"]["count"]:
            continue
        begun = started["classes"].get(name, nothing)  # streams of a class may only go on here
        classes[name] = ClassSummary(requests=begun["requests"], metrics=begun["metrics"] | gaps)
    return Arm(
        name=part.name,
        topology=part.arm,
        condition=part.condition,
        gpus=records.gpus.get(part.arm),
        requests=started["requests"],
        metrics=started["metrics"] | {one: cut["metrics"][one] for one in _OF_GAPS},
        classes=classes,
        throughput=throughput(timelines, [Window(mark.start_ns, mark.end_ns) for mark in marks]),
        users=users_of(part.condition),
    )


def _within(t_ns: int, marks: Sequence[Mark]) -> bool:
    return any(mark.start_ns <= t_ns < mark.end_ns for mark in marks)


def _events_within(timeline: Timeline, marks: Sequence[Mark]) -> Timeline:
    """Return a timeline of the events whose gaps ended within the marks, and the one before them."""
    inside = [index for index, event in enumerate(timeline.events) if _within(event.t_ns, marks)]
    if not inside:
        return replace(timeline, events=())
    return replace(timeline, events=timeline.events[max(inside[0] - 1, 0) : inside[-1] + 1])

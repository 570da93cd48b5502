"""A planner's run made by hand: every rate in it is known by construction.

One class of 100/20 tokens. Alone, a prompt is read in 100 ms (1,000 tokens/s, 10 requests/s), and four
streams have a step of 10 ms (400 tokens/s, 20 requests/s); eight streams never decode at a time.
"""

from __future__ import annotations

import json
from dataclasses import replace

from phasemeter.analysis.pd_ratio import Shape
from phasemeter.experiments.phase_isolated import PlannerSettings
from phasemeter.experiments.planner import PlannedFor
from phasemeter.load.workload import RequestClass
from tests.analysis.run_factory import MS, make_timeline, write_run

MIX = (RequestClass("only", 100, 20),)
SETTINGS = PlannerSettings(mix=MIX, instances=2, most_users=8)
SHAPES = {"mixed": Shape("mixed", 2, 2), "separated": Shape("separated", 1, 1)}
MEASURED_PER_S = {"mixed": 10.0, "separated": 9.0}
LENGTH_MS = 8_000.0


class _Run:
    """The run as it is put together."""

    def __init__(self) -> None:
        self.timelines = []
        self.marks = []
        self._start_ms = 0.0

    def add(
        self, arm, condition, users, repeat, *, latency_ms, gap_ms=None, tokens=1, together=None
    ):
        """A closed loop: each user's request takes `latency_ms`, `gap_ms` between its tokens."""
        name = f"{condition}@{users}"
        tags = {"arm": arm, "condition": name, "repeat": str(repeat), "class": "only"}
        for user in range(together or users):
            at_ms = self._start_ms + user * latency_ms / users
            while at_ms < self._start_ms + LENGTH_MS:
                gaps_ms = [] if gap_ms is None else [gap_ms] * (tokens - 1)
                self.timelines.append(
                    make_timeline(
                        f"{arm}-{name}-{repeat}-{user}-{at_ms}",
                        start_ms=at_ms,
                        first_ms=at_ms + latency_ms - sum(gaps_ms),
                        gaps_ms=gaps_ms,
                        tags=tags | {"prompt_tokens": "100"},
                    )
                )
                at_ms += latency_ms
        phase = "measure" if repeat else "search"
        for label, start_ms, end_ms in (
            ("warm-up", 0.0, 1_000.0),
            (phase, 1_000.0, 7_000.0),
            ("cool-down", 7_000.0, LENGTH_MS),
        ):
            self.marks.append(
                {
                    "arm": arm,
                    "condition": name,
                    "repeat": repeat,
                    "phase": label,
                    "start_ns": round((self._start_ms + start_ms) * MS),
                    "end_ns": round((self._start_ms + end_ms) * MS),
                }
            )
        self._start_ms += 2 * LENGTH_MS


def write_planner_run(path, *, repeats=2, shapes=None, settings=SETTINGS, keep=None):
    """Write the folder; `keep` is how many of its runs were carried out before it was interrupted."""
    shapes = SHAPES if shapes is None else shapes
    run = _Run()
    runs = [
        *(("isolated", "prefill", users, 0) for users in (1, 2)),
        *(("isolated", "decode", users, 0) for users in (1, 2, 4, 8)),
        *((arm, "mix", users, 0) for arm in shapes for users in (2, 4)),
    ]
    for repeat in range(1, repeats + 1):
        runs += [("isolated", "prefill", 1, repeat), ("isolated", "decode", 4, repeat)]
        runs += [(arm, "mix", 4, repeat) for arm in shapes]
    for arm, condition, users, repeat in runs[:keep]:
        if condition == "prefill":
            run.add(arm, condition, users, repeat, latency_ms=100.0 * users)
        elif condition == "decode":
            # Two steps for a prompt; the other streams go on, so not all decode meanwhile.
            together = min(users, 4)
            run.add(
                *(arm, condition, users, repeat),
                latency_ms=800.0,
                gap_ms=10.0,
                tokens=79,
                together=together,
            )
        else:
            per_s = MEASURED_PER_S.get(arm, 8.0)
            run.add(
                *(arm, condition, users, repeat),
                latency_ms=1_000 * users / per_s,
                gap_ms=5.0,
                tokens=20,
            )
    folder = write_run(path, run.timelines, kind="plan", marks=run.marks)
    manifest = json.loads((folder / "run.json").read_text())
    gpus = dict.fromkeys(shapes, 2)
    manifest["plan"] = PlannedFor(settings, shapes, gpus).to_json()
    (folder / "run.json").write_text(json.dumps(manifest))
    return folder


def settings_with(**changes):
    """Return the settings with some of them changed."""
    return replace(SETTINGS, **changes)

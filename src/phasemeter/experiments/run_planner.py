"""Carries out the planner's runs: searches first, then what they found, in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from phasemeter.analysis.pd_ratio import Shape, predict
from phasemeter.analysis.records import load_run
from phasemeter.core.errors import PhasemeterError
from phasemeter.experiments.arm_run import ArmRun
from phasemeter.experiments.carry_out import OnProgress, about_targets, carry_out_run
from phasemeter.experiments.phase_isolated import (
    ISOLATED,
    Condition,
    best_level,
    decode_run,
    mix_run,
    next_users,
    prefill_run,
)
from phasemeter.experiments.planner import PlannedFor, PlannerRecords
from phasemeter.load import run_folder
from phasemeter.load.target import Target

NewRun = Callable[[PlannerRecords, int, int], ArmRun]


class NothingMeasuredError(PhasemeterError):
    """A search ended without a rate; the message says which."""


def run_planner(
    folder: Path,
    planned: PlannedFor,
    targets: Mapping[str, Target],
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    on_progress: OnProgress,
) -> None:
    """Measure everything; the folder can be reported on at any time meanwhile.

    Args:
        folder: The run folder.
        planned: What to plan for; written to the manifest.
        targets: `phase_isolated.ISOLATED`, the one instance whose phases are measured alone, and the
            topologies of `planned.shapes`.
        headers: Extra request headers.
        timeout_s: Time limit of one request.
        on_progress: Told the run under way, the seconds since its start and its totals.

    Raises:
        KeyboardInterrupt: On SIGINT or SIGTERM, when everything measured so far has been written.
        WorkerFailedError: If a load worker failed.
        NothingMeasuredError: If prompts were not read or streams did not decode at all.
    """
    run_folder.write_manifest(
        folder,
        "plan",
        {
            "seed": planned.settings.seed,
            "plan": planned.to_json(),
            "target": about_targets(targets),
        },
    )
    _Runner(folder, planned, targets, headers, timeout_s, on_progress).run()


class _Runner:
    def __init__(
        self,
        folder: Path,
        planned: PlannedFor,
        targets: Mapping[str, Target],
        headers: Mapping[str, str],
        timeout_s: float,
        on_progress: OnProgress,
    ) -> None:
        self._folder = folder
        self._planned = planned
        self._settings = planned.settings
        self._targets = targets
        self._headers = headers
        self._timeout_s = timeout_s
        self._on_progress = on_progress
        self._writer = 0

    def run(self) -> None:
        settings = self._settings
        found: list[tuple[NewRun, int]] = []

        def prefill(records: PlannerRecords, users: int, repeat: int) -> ArmRun:
            return prefill_run(settings, users, repeat, records.pace())

        found.append((prefill, self._search(ISOLATED, "prefill", prefill, patience=2)))

        def decode(records: PlannerRecords, streams: int, repeat: int) -> ArmRun:
            pace = records.pace()
            assert pace is not None  # the search for prefill came first
            return decode_run(settings, streams, repeat, pace)

        streams = self._search(ISOLATED, "decode", decode)
        found.append((decode, streams))
        capacity = self._records().capacity(settings.mix)
        assert capacity is not None  # both searches have ended with a rate
        for arm, shape in self._planned.shapes.items():
            expected = predict(capacity, shape or Shape("mixed", 1, 1)).requests_per_s.value

            def mix(
                records: PlannerRecords,
                users: int,
                repeat: int,
                arm: str = arm,
                expected: float = expected,
            ) -> ArmRun:
                del records  # sized by what is predicted
                return mix_run(settings, arm, users, repeat, expected)

            # Half of what could decode at a time: the search doubles from there.
            decoders = 1 if shape is None else shape.decode
            first = max(streams * decoders // 2, 1)
            found.append((mix, self._search(arm, "mix", mix, first=first, patience=2)))
        searched = self._records()  # runs are sized by the searches, which are over
        for repeat in range(1, settings.repeats + 1):
            for new_run, users in found if repeat % 2 else reversed(found):
                self._carry_out(new_run(searched, users, repeat))

    def _search(
        self,
        arm: str,
        condition: Condition,
        new_run: NewRun,
        *,
        first: int = 1,
        patience: int = 1,
    ) -> int:
        """Return the number of users at which most was done."""
        most = self._settings.most_users
        while True:
            records = self._records()
            levels = records.levels(arm, condition)
            users = next_users(levels, first=first, most=most, patience=patience)
            if users is None:
                break
            self._carry_out(new_run(records, users, 0))
        best = best_level(levels)
        if best is None:
            msg = f"nothing was measured of {arm} {condition}: no request ended ok in the search"
            raise NothingMeasuredError(msg)
        return best.users

    def _records(self) -> PlannerRecords:
        return PlannerRecords(load_run(self._folder))

    def _carry_out(self, run: ArmRun) -> None:
        carry_out_run(
            self._folder,
            run,
            self._targets[run.arm],
            writer=self._writer,
            headers=self._headers,
            timeout_s=self._timeout_s,
            on_progress=self._on_progress,
        )
        self._writer += 1

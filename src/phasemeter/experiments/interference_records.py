"""The records of an interference run, by topology, condition, phase and class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phasemeter.analysis.records import Mark, RunRecords
from phasemeter.core.clock import NS_PER_S
from phasemeter.core.record import Issued
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.experiments.blocks import Stretch
from phasemeter.experiments.inject_run import InjectRun
from phasemeter.experiments.ramp_plan import users_of

BACKGROUND, INJECTED = "background", "injected"
ALONE = ("short_alone", "long_alone")


@dataclass(frozen=True, slots=True)
class Part:
    """One row of the experiment: a measured phase of a condition on a topology, over all repeats.

    Attributes:
        arm: Name of the topology.
        condition: The condition.
        phase: The phase.
        users: Only the runs with so many users; None for all.
    """

    arm: str
    condition: str
    phase: str
    users: int | None = None

    @property
    def name(self) -> str:
        """`topology/condition`, or `topology/phase` where a condition has several.

        Followed by the number of users where it is of these runs only.
        """
        name = f"{self.arm}/{self.condition if self.phase == 'measure' else self.phase}"
        return name if self.users is None else f"{name}, users {self.users}"


PARTS = (
    ("prompts_alone", "measure"),
    ("inject", "baseline"),
    ("inject", "inject"),
    ("inject", "recovery"),
    ("short_alone", "measure"),
    ("long_alone", "measure"),
    ("together", "measure"),
)
"""The measured phases, in the order of reports; the levels of a ramp follow."""


class InterferenceRecords:
    """A run's responses in the parts that the experiment compares.

    Only of conditions that were carried out to their end: what was in flight when a run was
    interrupted says nothing about the server.

    Attributes:
        issued: Requests issued.
        failed: Those of them that did not end ok.
        gpus: Accelerators (or cores) by topology.
        ramp_prime_s: Time that each level of a ramp had to get going, None where not told.
        per_gpu: Unequal GPU counts were accepted, to be compared per GPU.
        apart: Topologies whose routes keep injected prompts and background streams apart.
    """

    def __init__(self, run: RunRecords) -> None:
        self._marks = run.marks
        finished = {_run_of_mark(mark) for mark in run.marks}
        self._timelines = [t for t in run.timelines if _run_of(t.tags) in finished]
        self._issued = [request for request in run.issued if _run_of(request.tags) in finished]
        self.issued = len(self._issued)
        self.failed = sum(t.outcome is not Outcome.OK for t in self._timelines)
        self._groups: dict[tuple[str, str, str, str, str], list[Timeline]] = {}
        for timeline in self._timelines:
            if timeline.outcome is Outcome.OK:
                key = (*_run_of(timeline.tags), timeline.tags.get("class", ""))
                self._groups.setdefault(key, []).append(timeline)
        target = run.manifest.get("target")
        gpus = target.get("gpus") if isinstance(target, dict) else None
        self.gpus: Mapping[str, int | None] = gpus if isinstance(gpus, dict) else {}
        plan = run.manifest.get("plan")
        prime_s = plan.get("ramp_prime_s") if isinstance(plan, dict) else None
        self.ramp_prime_s = float(prime_s) if isinstance(prime_s, int | float) else None
        self.per_gpu = isinstance(target, dict) and target.get("per_gpu") is True
        topologies = target.get("topologies") if isinstance(target, dict) else None
        told = topologies if isinstance(topologies, dict) else {}
        self.apart = frozenset(arm for arm, one in told.items() if _keeps_apart(one))

    def arms(self) -> list[str]:
        """Topologies that were measured, in the order of the manifest."""
        measured = list(dict.fromkeys(mark.arm for mark in self._marks))
        order = list(self.gpus)
        return sorted(measured, key=lambda arm: order.index(arm) if arm in order else len(order))

    def parts(self) -> list[Part]:
        """The parts that were measured, topology by topology."""
        return [
            Part(arm, condition, phase, users)
            for arm in self.arms()
            for condition, phase in PARTS
            for users in self.users(arm, condition, phase)
        ] + [level for arm in self.arms() for level in self.ramp(arm).values()]

    def ramp(self, arm: str) -> dict[int, Part]:
        """The levels of a topology's ramp that were measured, by number of users, in order."""
        conditions = {mark.condition for mark in self._marks if mark.arm == arm}
        levels = {users: one for one in conditions if (users := users_of(one)) is not None}
        return {users: Part(arm, levels[users], "measure") for users in sorted(levels)}

    def classes(self, part: Part) -> list[str]:
        """The classes with ok responses in a part's condition, the shortest prompts first."""
        prompts: dict[str, int] = {}
        for (arm, condition, *_, name), timelines in self._groups.items():
            if (arm, condition) == (part.arm, part.condition):
                told = [int(one.tags.get("prompt_tokens", "0")) for one in timelines]
                prompts[name] = max(prompts.get(name, 0), *told)
        return sorted(prompts, key=lambda name: (prompts[name], name))

    def users(self, arm: str, condition: str, phase: str) -> list[int | None]:
        """Return the numbers of users that a phase was run with, in order; [None] where it is one."""
        found = {mark.users for mark in self.marks(Part(arm, condition, phase))}
        several = len(found - {None}) > 1
        return sorted(found, key=lambda users: users or 0) if several else [None] * bool(found)

    def measured(self, arm: str, condition: str) -> bool:
        """Whether a condition was carried out on a topology at least once."""
        return any((mark.arm, mark.condition) == (arm, condition) for mark in self._marks)

    def mix_classes(self) -> dict[str, str]:
        """Classes of the mix, each with the condition in which it was alone."""
        return {key[-1]: key[1] for key in sorted(self._groups, reverse=True) if key[1] in ALONE}

    def marks(self, part: Part) -> list[Mark]:
        """The marks of a part, one a repeat."""
        wanted = (part.arm, part.condition, part.phase)
        return [
            mark
            for mark in self._marks
            if (mark.arm, mark.condition, mark.phase) == wanted and part.users in (None, mark.users)
        ]

    def stretches(self, part: Part, *classes: str) -> list[Stretch]:
        """The ok responses of one or more classes in a part, one stretch a repeat."""
        return [
            Stretch(
                mark,
                [
                    timeline
                    for name in classes
                    for timeline in self._groups.get((*_run_of_mark(mark), name), ())
                ],
            )
            for mark in self.marks(part)
        ]

    def inject_runs(self, arm: str) -> list[InjectRun]:
        """The runs of condition inject on a topology, in the order in which they were made."""
        marks: dict[tuple[str, str, str, str], dict[str, Mark]] = {}
        for mark in self._marks:
            if (mark.arm, mark.condition) == (arm, "inject"):
                marks.setdefault(_run_of_mark(mark), {})[mark.phase] = mark
        return [
            InjectRun(
                arm,
                int(key[2]),
                int(key[3] or 0),
                phases,
                self._groups.get((*key, BACKGROUND), ()),
                self._groups.get((*key, INJECTED), ()),
            )
            for key, phases in marks.items()
        ]

    def inject_prime_s(self) -> float | None:
        """Time that the background had to get going, None where it is not told."""
        primes = (m for m in self._marks if (m.condition, m.phase) == ("inject", "prime"))
        prime = next(primes, None)
        return None if prime is None else (prime.end_ns - prime.start_ns) / NS_PER_S

    def alone_ttfts_ns(self, arm: str) -> dict[int, list[int]]:
        """Times from sent to first token of prompts that were sent alone, by their length."""
        found: dict[int, list[int]] = {}
        for key, timelines in self._groups.items():
            for one in timelines if key[:2] == (arm, "prompts_alone") else ():
                if one.sent_ns is not None and one.first_token_ns is not None:
                    tokens = int(one.tags.get("prompt_tokens", "0"))
                    found.setdefault(tokens, []).append(one.first_token_ns - one.sent_ns)
        return found

    def responses(self, part: Part) -> tuple[list[Timeline], list[Issued]]:
        """All responses and started requests of a part's runs, of any outcome."""
        wanted = {_run_of_mark(mark) for mark in self.marks(part)}
        return (
            [t for t in self._timelines if _run_of(t.tags) in wanted],
            [request for request in self._issued if _run_of(request.tags) in wanted],
        )


def _keeps_apart(target: object) -> bool:
    routes = target.get("routes") if isinstance(target, dict) else None
    if not isinstance(routes, dict) or not {BACKGROUND, INJECTED} <= routes.keys():
        return False
    return not set(routes[BACKGROUND]) & set(routes[INJECTED])


def _run_of(tags: Mapping[str, str]) -> tuple[str, str, str, str]:
    return tuple(tags.get(name, "") for name in ("arm", "condition", "repeat", "users"))  # type: ignore[return-value]


def _run_of_mark(mark: Mark) -> tuple[str, str, str, str]:
    users = "" if mark.users is None else str(mark.users)
    return mark.arm, mark.condition, str(mark.repeat), users

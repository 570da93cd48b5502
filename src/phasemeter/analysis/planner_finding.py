"""What the planner found: rates of each phase alone, predictions, and measured topologies. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phasemeter.analysis.bootstrapped import Bootstrapped
from phasemeter.analysis.pd_ratio import Prediction, Shape


@dataclass(frozen=True, slots=True)
class MixedClass:
    """A class of the mix that was planned for."""

    name: str
    share: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Point:
    """What one number of users brought in the search.

    Attributes:
        users: Users, or streams.
        rate: Tokens per second of the phase; requests per second of a topology.
        step_ms: Time between two tokens of a stream that decodes; None for anything else.
    """

    users: int
    rate: Bootstrapped
    step_ms: float | None = None


@dataclass(frozen=True, slots=True)
class PhaseRate:
    """What one instance did of one phase alone.

    Attributes:
        users: Users, or streams that decoded at a time.
        tokens_per_s: Prompt tokens read, or output tokens written, per second.
        requests_per_s: The same in requests of the mix.
        step_ms: Time between two tokens of a stream; None for prefill.
        context_tokens: Mean tokens before each decoded one; None for prefill.
    """

    users: int
    tokens_per_s: Bootstrapped
    requests_per_s: Bootstrapped
    step_ms: float | None = None
    context_tokens: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return the figures."""
        return {
            "users": self.users,
            "tokens_per_s": self.tokens_per_s.to_json(),
            "requests_per_s": self.requests_per_s.to_json(),
            "step_ms": self.step_ms,
            "context_tokens": self.context_tokens,
        }


@dataclass(frozen=True, slots=True)
class MeasuredTopology:
    """A topology under the mix, as many requests being in flight as it can make use of.

    Attributes:
        arm: Its name in the run.
        shape: Its numbers of instances; None where they say nothing, as with an instance that prefills
            for others and decodes only for itself.
        gpus: Accelerators that it had.
        users: Users of the closed loop.
        requests_per_s: Ok requests per second.
        output_tokens_per_s: Their output tokens; None where not told.
        prediction: What was predicted for it.
        ratio: Measured over predicted.
    """

    arm: str
    shape: Shape | None
    gpus: int
    users: int
    requests_per_s: Bootstrapped
    output_tokens_per_s: Bootstrapped | None
    prediction: Prediction | None
    ratio: Bootstrapped | None


@dataclass(frozen=True, slots=True)
class PlannerFinding:
    """What the planner found.

    Attributes:
        mix: The mix that was planned for.
        prompt_tokens: Mean prompt of a request.
        output_tokens: Mean answer of a request.
        gpus_per_instance: Accelerators of an instance.
        instances: Instances that were planned for.
        prefill: Prefill alone; None where it was not measured.
        decode: Decode alone; None where it was not measured.
        predictions: Every split of the instances, and all of them mixed; empty without both rates.
        best: The best split; None where there is none.
        best_share: In which share of the bootstrap draws it is the best one; None without intervals.
        matched: Prefill instances per decode instance at which neither waits; None without both rates.
        measured: Topologies that were measured.
        curves: The search: by `prefill`, `decode` or name of the topology.
        warnings: Sentences on how to read the figures.
    """

    mix: tuple[MixedClass, ...]
    prompt_tokens: float
    output_tokens: float
    gpus_per_instance: int
    instances: int
    prefill: PhaseRate | None = None
    decode: PhaseRate | None = None
    predictions: tuple[Prediction, ...] = ()
    best: Prediction | None = None
    best_share: float | None = None
    matched: Bootstrapped | None = None
    measured: tuple[MeasuredTopology, ...] = ()
    curves: Mapping[str, tuple[Point, ...]] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True where both rates are known, so that something is predicted."""
        return bool(self.predictions)

    def gpus_of(self, shape: Shape) -> int:
        """Return the accelerators of a topology."""
        return shape.instances * self.gpus_per_instance

    def to_json(self) -> dict[str, object]:
        """Return the part of `phasemeter plan --json` that the analysis tells."""
        return {
            "mix": {
                one.name: {
                    "share": one.share,
                    "prompt_tokens": one.prompt_tokens,
                    "output_tokens": one.output_tokens,
                }
                for one in self.mix
            },
            "mean_prompt_tokens": self.prompt_tokens,
            "mean_output_tokens": self.output_tokens,
            "gpus": self.instances * self.gpus_per_instance,
            "gpus_per_instance": self.gpus_per_instance,
            "isolated": {
                "prefill": None if self.prefill is None else self.prefill.to_json(),
                "decode": None if self.decode is None else self.decode.to_json(),
            },
            "predicted": {one.shape.name: self._predicted(one) for one in self.predictions},
            "best": None
            if self.best is None
            else {"topology": self.best.shape.name, "share_of_draws": self.best_share},
            "prefill_per_decode": None if self.matched is None else self.matched.to_json(),
            "measured": {one.arm: self._measured(one) for one in self.measured},
            "searched": {
                name: [
                    {"users": p.users, "rate": p.rate.to_json(), "step_ms": p.step_ms}
                    for p in points
                ]
                for name, points in (self.curves or {}).items()
            },
            "warnings": list(self.warnings),
        }

    def _predicted(self, one: Prediction) -> dict[str, object]:
        gpus = self.gpus_of(one.shape)
        rate = one.requests_per_s
        return {
            "prefill_instances": one.shape.prefill,
            "decode_instances": one.shape.decode,
            "gpus": gpus,
            "requests_per_s": rate.to_json(),
            "requests_per_s_per_gpu": rate.value / gpus,
            "output_tokens_per_s": rate.value * self.output_tokens,
            "limited_by": one.limited_by,
        }

    def _measured(self, one: MeasuredTopology) -> dict[str, object]:
        tokens, predicted = one.output_tokens_per_s, one.prediction
        return {
            "topology": None if one.shape is None else one.shape.name,
            "gpus": one.gpus,
            "users": one.users,
            "requests_per_s": one.requests_per_s.to_json(),
            "requests_per_s_per_gpu": one.requests_per_s.value / one.gpus,
            "output_tokens_per_s": None if tokens is None else tokens.to_json(),
            "predicted_requests_per_s": None
            if predicted is None
            else predicted.requests_per_s.to_json(),
            "measured_over_predicted": None if one.ratio is None else one.ratio.to_json(),
        }

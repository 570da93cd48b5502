"""The results as one JSON file, rewritten after every step, so that nothing finished is ever lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks.gpu.backends import Backend, Deployment, Server
from benchmarks.gpu.commands import Ended, Rates
from benchmarks.gpu.hardware import parse_samples, under_load
from benchmarks.gpu.model import Shape
from benchmarks.gpu.time_plan import PlannedPart, TimePlan
from phasemeter import __version__
from phasemeter.core.clock import NS_PER_S, PROCESS_ANCHOR, now_ns

_KEPT = ("verdict", "validity", "requests", "throughput", "factors", "arms", "ramp", "notes")
"""Of a part's document; exposures and the rest are in its run folder."""


class Results:
    """Collects what happened.

    Args:
        folder: The output folder; `results.json` goes there.
        device: What the servers compute on.
        shape: The model's shape.
        versions: Versions in the servers' environment.
        machine: The machine.
        budget_s: Time for everything.
    """

    def __init__(
        self,
        folder: Path,
        device: str,
        shape: Shape,
        versions: Mapping[str, str],
        machine: Mapping[str, object],
        budget_s: float,
    ) -> None:
        self.path = folder / "results.json"
        self._plan: TimePlan | None = None
        self._parts: list[dict[str, object]] = []
        self._failures: list[dict[str, str]] = []
        self._document: dict[str, object] = {
            "schema": 1,
            "device": device,
            "model": {**asdict(shape), "parameters": shape.parameters, "weights": "random"},
            "versions": {"phasemeter": __version__, **versions},
            "machine": machine,
            "budget_s": budget_s,
            "started_unix_ns": PROCESS_ANCHOR.unix_ns_at(now_ns()),
            "parts": self._parts,
            "could_not": self._failures,
        }

    def planned(self, backend: Backend, plan: TimePlan) -> None:
        """Keep the plan; that which is made once the servers answer takes the place of the first."""
        self._plan = plan
        self._document["backend"] = backend
        self._document["plan"] = {
            "at_most_s": plan.total_s,
            "parts": [
                {
                    "part": part.label,
                    "topologies": list(part.arms),
                    "repeats": part.repeats,
                    "measured_s_each": part.seconds,
                    "limit_s": part.limit_s,
                }
                for part in plan.parts
            ],
            "left_out": list(plan.left_out),
        }
        parts = ", ".join(
            f"{part.label} {part.repeats} x {part.seconds:g} s" for part in plan.parts
        )
        start = f", should starting take {plan.start_s:.0f} s" if plan.start_s else ""
        self._say(f"plan: {plan.total_s:.0f} s at most{start}: {parts or 'nothing'}")
        if plan.left_out:
            self._say(f"no time for {', '.join(plan.left_out)}")

    def could_not(self, what: str, reason: str) -> None:
        """Keep why something was not brought up."""
        self._failures.append({"what": what, "reason": reason})
        self._say(f"{what}: {reason.splitlines()[0]}")

    def ready(self, deployment: Deployment, ready_s: float) -> None:
        """Keep that the servers answer, and how they were started."""
        self._document["deployment"] = {
            "ready_s": round(ready_s, 1),
            "topologies": list(deployment.arms),
            "note": deployment.note,
            "servers": [_server(server) for server in deployment.servers],
        }
        self._say(f"ready after {ready_s:.0f} s")

    def chose(self, rates: Rates) -> None:
        """Keep the rates that the probe gave."""
        self._document["rates"] = asdict(rates)
        told = "unknown" if rates.long_ttft_ms is None else f"{rates.long_ttft_ms:.0f} ms"
        self._say(
            f"TTFT of a long prompt alone {told}: {rates.requests_per_s:g} requests/s in the mix, "
            f"{rates.injections_per_s:g} injections/s"
        )

    def measured(
        self, part: PlannedPart, ended: Ended, run: str, begun_ns: int, ended_ns: int
    ) -> None:
        """Keep what a part measured, and how it ended."""
        measured = _kept(ended.document or {})
        verdict = measured.get("verdict")
        kind = verdict["kind"] if isinstance(verdict, dict) else "nothing measured"
        self._parts.append(
            {
                "target": part.target,
                "part": part.name,
                "status": ended.status,
                "returncode": ended.returncode,
                "said": ended.said if ended.status in ("failed", "killed") else None,
                "seconds": round(ended.seconds, 1),
                "between_unix_s": [_unix_s(begun_ns), _unix_s(ended_ns)],
                "run": run,
                "page": f"{run}/report.html",
                "measured": measured,
            }
        )
        self._say(f"{part.label}: {ended.status} after {ended.seconds:.0f} s, {kind}")

    def is_complete(self) -> bool:
        """Whether every planned part was carried out to its end."""
        done = [one for one in self._parts if one["status"] == "done"]
        return self._plan is not None and len(done) == len(self._plan.parts)

    def close(self, started_ns: int, samples: Path) -> None:
        """Add what the GPUs did during each part, and the whole time."""
        seen = parse_samples(samples.read_text()) if samples.exists() else []
        for part in self._parts:
            part["gpus"] = under_load([gpu for t_s, gpu in seen if _is_within(part, t_s)])
        self._document["total_s"] = round((now_ns() - started_ns) / NS_PER_S, 1)
        self._write()

    def _say(self, line: str) -> None:
        print(line, flush=True)
        self._write()

    def _write(self) -> None:
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(self._document, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)


def _kept(document: Mapping[str, object]) -> dict[str, object]:
    """Return what results hold of a part's document, that of `interference` or of `report`."""
    inner = document.get("interference")
    merged = {**document, **inner} if isinstance(inner, dict) else document
    return {name: merged[name] for name in _KEPT if name in merged}


def _server(server: Server) -> dict[str, object]:
    """Return how a server was started, without the paths of this machine."""
    python, *rest = server.command
    places = {python: "python", server.model: "MODEL"}
    words = [places.get(word, word) for word in (python, *rest)]
    told = [Path(word).name if word.startswith("/") else word for word in words]
    return {"name": server.name, "command": told, "variables": dict(server.variables)}


def _unix_s(t_ns: int) -> float:
    return PROCESS_ANCHOR.unix_ns_at(t_ns) / NS_PER_S


def _is_within(part: Mapping[str, object], t_s: float) -> bool:
    between = part["between_unix_s"]
    return isinstance(between, list) and between[0] <= t_s <= between[1]

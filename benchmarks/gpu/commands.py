"""Commands of ours, run as processes with a hard end, and the rates that a probe says a server bears."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.gpu.time_plan import PROBE_S, Sizes
from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.load.workload import parse_mix

Status = Literal["done", "interrupted", "killed", "failed"]

GRACE_S = 8.0
"""An interrupted command has so long to report what it measured before it is killed."""

_INVALID, _INTERRUPTED = 3, 130

_LOAD = 0.35
"""Share of its time that the server is to spend on prompts."""
_MOST_REQUESTS_PER_S, _MOST_INJECTIONS_PER_S = 8.0, 4.0
_LEAST_PER_S = 0.1


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        status: `done` also where its figures are invalid; `interrupted` and `killed` at its hard end.
        returncode: Its exit status.
        seconds: How long it took.
        document: The JSON document that it printed, None without one.
        said: Last line of its standard error.
    """

    status: Status
    returncode: int
    seconds: float
    document: Mapping[str, object] | None
    said: str


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast requests come.

    Attributes:
        requests_per_s: Of the mix.
        injections_per_s: Of injected prompts.
        long_ttft_ms: The probe's median TTFT of the long class, None where it gave none.
    """

    requests_per_s: float
    injections_per_s: float
    long_ttft_ms: float | None


def run_phasemeter(
    arguments: Sequence[str], log: Path, *, end_ns: int, grace_s: float = GRACE_S
) -> Ended:
    """Run the command line, and end it when its time is over.

    Args:
        arguments: Its arguments, `--json` among them.
        log: Where its standard error goes; the document goes beside it as `.json`.
        end_ns: When it must be gone, monotonic.
        grace_s: So long before it is interrupted, to report what it measured.
    """
    command = [sys.executable, "-m", "phasemeter", *arguments]
    started_ns = now_ns()
    out_path = log.with_suffix(".json")
    status: Status = "done"
    with out_path.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            process.wait(_left_s(end_ns - round(grace_s * NS_PER_S)))
        except subprocess.TimeoutExpired:
            status = "killed"
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_left_s(end_ns))
                status = "interrupted"
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            raise
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if status == "done" and process.returncode not in (0, 1, _INVALID):
        status = "interrupted" if process.returncode == _INTERRUPTED else "failed"
    lines = log.read_text(errors="replace").strip().splitlines()
    return Ended(
        status,
        process.returncode,
        (now_ns() - started_ns) / NS_PER_S,
        _document(out_path),
        lines[-1] if lines else "",
    )


def _left_s(end_ns: int) -> float:
    return max((end_ns - now_ns()) / NS_PER_S, 0.1)


def _document(path: Path) -> Mapping[str, object] | None:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def probe(url: str, model: str, sizes: Sizes, folder: Path) -> Rates:
    """Send a few long prompts one after the other and choose rates by their TTFT."""
    long = parse_mix(sizes.long)[0]
    arguments = [
        *("load", url, "--model", model, "--users", "1", "--requests", "5"),
        *("--mix", f"long=100%:{long.prompt_tokens}/4", "--duration", f"{PROBE_S / 2:g}s"),
        *("-o", str(folder / "probe"), "--json"),
    ]
    end_ns = now_ns() + round(PROBE_S * NS_PER_S)
    ended = run_phasemeter(arguments, folder / "probe.log", end_ns=end_ns)
    return rates_for(_median_ttft_ms(ended.document), sizes)


def _median_ttft_ms(document: Mapping[str, object] | None) -> float | None:
    metrics = (document or {}).get("metrics")
    ttft = metrics.get("ttft") if isinstance(metrics, dict) else None
    value = ttft.get("p50") if isinstance(ttft, dict) else None
    return value if isinstance(value, float) else None


def rates_for(long_ttft_ms: float | None, sizes: Sizes) -> Rates:
    """Return the rates at which prompts take a good third of the server's time.

    Faster than that, a closed server queues without end and shows its queue, not interference.

    Args:
        long_ttft_ms: Median TTFT of the long class alone; the slowest rates where it is not known.
        sizes: What requests ask for.
    """
    if long_ttft_ms is None:
        return Rates(_LEAST_PER_S, _LEAST_PER_S, None)
    long_s = max(long_ttft_ms, 1.0) / 1000
    long = next(one for one in parse_mix(sizes.mix) if one.name == "long")
    mean_injected_s = long_s * (
        sum(sizes.inject_tokens) / len(sizes.inject_tokens) / sizes.long_prompt_tokens
    )
    return Rates(
        _between(_LOAD / (long.share * long_s), _MOST_REQUESTS_PER_S),
        _between(_LOAD / mean_injected_s, _MOST_INJECTIONS_PER_S),
        long_ttft_ms,
    )


def _between(rate_per_s: float, most: float) -> float:
    return round(min(max(rate_per_s, _LEAST_PER_S), most), 2)

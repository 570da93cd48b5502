"""Can a run be believed? Small rules over what the run tells about itself; the worst one decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from phasemeter.analysis.health import cpu_share
from phasemeter.analysis.records import WorkerEnd
from phasemeter.analysis.shape import RequestCounts, ServerFigures, Validity, ValidityVerdict
from phasemeter.core.clock import NS_PER_MS

COALESCED_SHARE_SUSPECT = 0.05
STAMP_LAG_SUSPECT_SHARE = 0.05
STAMP_LAG_INVALID_SHARE = 0.1
"""Shares of the median gap: a gap lies between two stamps, each of which may be late by so much."""

STAMP_LAG_SUSPECT_LEAST_MS = 1.0
STAMP_LAG_INVALID_LEAST_MS = 2.0
STAMP_LAG_SUSPECT_MS = 5.0
STAMP_LAG_INVALID_MS = 50.0
"""For runs without gaps."""

SEND_LAG_SUSPECT_MS = 50.0
CONNECTION_WAIT_SUSPECT_MS = 50.0
CPU_SHARE_SUSPECT = 0.9
STEAL_SHARE_SUSPECT = 0.05
FAILED_SHARE_SUSPECT = 0.05
FAILED_SHARE_INVALID = 0.5
PREFIX_HITS_SHARE_SUSPECT = 0.005
"""A chat template's first tokens may be in a cache however new the prompts are."""

PREFIX_HITS_SHARE_INVALID = 0.1
RECOMPUTED_SHARE_INVALID = 0.05


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules look at.

    Attributes:
        requests: Requests by outcome.
        record_count: Responses with a record, whatever their outcome.
        token_events: Token events of all responses.
        streams_with_tokens: Responses with at least one token event.
        coalesced_events: Token events without a gap of their own.
        median_gap_ms: Median of the gaps; None without gaps.
        connection_wait_ms: p99 of how long requests on kept connections waited until they were sent.
        stamp_sources: Every stamp source that occurs.
        clock_steps: Responses during which the wall clock moved.
        workers: What the workers said at their end.
        record_files: Record files, one a worker.
        unreadable_lines: Whole lines that could not be understood.
        server: What the servers told about themselves.
    """

    requests: RequestCounts
    record_count: int = 0
    token_events: int = 0
    streams_with_tokens: int = 0
    coalesced_events: int = 0
    median_gap_ms: float | None = None
    connection_wait_ms: float | None = None
    stamp_sources: frozenset[str] = frozenset()
    clock_steps: int = 0
    workers: Sequence[WorkerEnd] = ()
    record_files: int = 0
    unreadable_lines: int = 0
    server: Sequence[ServerFigures] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason against a run.

    Attributes:
        severity: What this reason alone makes of the run.
        text: One sentence with the figures.
    """

    severity: Literal["suspect", "invalid"]
    text: str


def nothing_finished(evidence: Evidence) -> Reason | None:
    """Without an ok response there is no latency to report."""
    if evidence.requests["ok"] > 0:
        return None
    issued = evidence.requests["issued"]
    return Reason("invalid", f"no request ended ok ({issued} issued)")


def many_failed(evidence: Evidence) -> Reason | None:
    """Percentiles of the few that survived say little about a server that fails the others."""
    counts = evidence.requests
    failed = counts["error"] + counts["truncated"] + counts["empty"]
    ended = counts["ok"] + failed  # what the user cancelled is no failure
    if not counts["ok"] or failed <= FAILED_SHARE_SUSPECT * ended:
        return None
    severity: Literal["suspect", "invalid"] = (
        "invalid" if failed > FAILED_SHARE_INVALID * ended else "suspect"
    )
    return Reason(severity, f"{failed} of {ended} requests failed; latencies are of the others")


def issued_mismatch(evidence: Evidence) -> Reason | None:
    """Every request issued has exactly one record or is in flight."""
    counts = evidence.requests
    accounted = evidence.record_count + counts["in_flight"]
    if counts["issued"] == accounted:
        return None
    return Reason(
        "invalid", f"{counts['issued']} requests issued but {accounted} accounted for by outcome"
    )


def unreadable_lines(evidence: Evidence) -> Reason | None:
    """A line that is whole and cannot be read is a lost request."""
    if evidence.unreadable_lines == 0:
        return None
    return Reason("suspect", f"{evidence.unreadable_lines} record lines could not be read")


def workers_missing(evidence: Evidence) -> Reason | None:
    """A worker that did not say how it ended was killed, and its own lag is unknown."""
    silent = evidence.record_files - len(evidence.workers)
    if silent <= 0:
        return None
    return Reason(
        "suspect",
        f"{silent} of {evidence.record_files} load workers did not end in order: "
        "their loop and send lag are unknown",
    )


def workers_stopped(evidence: Evidence) -> Reason | None:
    """A worker that was stopped did not carry out its share of the plan."""
    stopped = sum(worker.ended != "done" for worker in evidence.workers)
    if not stopped:
        return None
    return Reason(
        "suspect",
        f"{stopped} of {len(evidence.workers)} load workers were interrupted: the load was "
        "less than planned",
    )


def clock_steps(evidence: Evidence) -> Reason | None:
    """Kernel stamps are wall-clock time: a step of it spoils the spans it falls into."""
    if evidence.clock_steps == 0:
        return None
    return Reason("suspect", f"the wall clock moved during {evidence.clock_steps} responses")


def coalesced(evidence: Evidence) -> Reason | None:
    """Events that share a read have no gap; many of them make the gap percentiles too high."""
    gaps = evidence.token_events - evidence.streams_with_tokens
    if gaps <= 0 or evidence.coalesced_events <= COALESCED_SHARE_SUSPECT * gaps:
        return None
    share = evidence.coalesced_events / gaps
    return Reason(
        "suspect",
        f"{share:.1%} of the gaps are unknown: their token events came in one read with others",
    )


def late_stamps(evidence: Evidence) -> Reason | None:
    """Stamps taken in user space are late by as much as this process is late to take them."""
    if not evidence.stamp_sources - {"kernel"}:
        return None
    lags_ms = [lag for worker in evidence.workers if (lag := _stamp_lag_ms(worker)) is not None]
    if not lags_ms:
        return None  # silent workers have a rule of their own; an application has no driver loop
    worst_ms = max(lags_ms)
    suspect_ms, invalid_ms = _stamp_limits_ms(evidence.median_gap_ms)
    if worst_ms <= suspect_ms:
        return None
    severity: Literal["suspect", "invalid"] = "invalid" if worst_ms > invalid_ms else "suspect"
    gaps = evidence.median_gap_ms
    beside = "" if gaps is None else f", beside gaps of {gaps:.1f} ms (p50)"
    return Reason(
        severity,
        f"user-space stamps were up to {worst_ms:.1f} ms late (p99){beside}: the client was kept from "
        "its core or had too much to do",
    )


def _stamp_lag_ms(worker: WorkerEnd) -> float | None:
    """Return how late a worker's stamps were, p99.

    The kernel tells it directly; where it does not, a read waits at worst for the loop to come to run
    and for a turn to end.
    """
    if worker.read_lag_ns is not None:
        return worker.read_lag_ns[1] / NS_PER_MS
    told_ms = [lag[1] / NS_PER_MS for lag in (worker.wake_lag_ns, worker.loop_lag_ns) if lag]
    return max(told_ms, default=None)


def _stamp_limits_ms(median_gap_ms: float | None) -> tuple[float, float]:
    if median_gap_ms is None:
        return STAMP_LAG_SUSPECT_MS, STAMP_LAG_INVALID_MS
    return (
        max(STAMP_LAG_SUSPECT_LEAST_MS, STAMP_LAG_SUSPECT_SHARE * median_gap_ms),
        max(STAMP_LAG_INVALID_LEAST_MS, STAMP_LAG_INVALID_SHARE * median_gap_ms),
    )


def send_lag(evidence: Evidence) -> Reason | None:
    """Requests sent late make the offered load something else than the plan."""
    lags_ms = [worker.send_lag_ns[1] / 1e6 for worker in evidence.workers if worker.send_lag_ns]
    if not lags_ms or max(lags_ms) <= SEND_LAG_SUSPECT_MS:
        return None
    return Reason("suspect", f"requests were sent up to {max(lags_ms):.0f} ms late (p99)")


def connection_wait(evidence: Evidence) -> Reason | None:
    """A pool that is too small makes requests wait in the client, inside ttft."""
    wait_ms = evidence.connection_wait_ms
    if wait_ms is None or wait_ms <= CONNECTION_WAIT_SUSPECT_MS:
        return None
    return Reason(
        "suspect",
        f"requests waited up to {wait_ms:.0f} ms (p99) in the client for a free connection: ttft "
        "contains that",
    )


def worker_busy(evidence: Evidence) -> Reason | None:
    """A process that needs its whole core cannot keep to the plan."""
    shares = [share for worker in evidence.workers if (share := cpu_share(worker)) is not None]
    if not shares or max(shares) <= CPU_SHARE_SUSPECT:
        return None
    return Reason(
        "suspect",
        f"a load worker used {max(shares):.0%} of a core: the client was at its limit, so use more "
        "workers",
    )


def stolen_time(evidence: Evidence) -> Reason | None:
    """Time that a hypervisor takes stops the clock of nobody, and delays even the kernel's stamps."""
    shares = [one.steal_share for one in evidence.workers if one.steal_share is not None]
    if not shares or max(shares) <= STEAL_SHARE_SUSPECT:
        return None
    return Reason(
        "suspect",
        f"the hypervisor took {max(shares):.1%} of this machine's time: arrivals may be stamped late",
    )


def prefix_cache_hits(evidence: Evidence) -> Reason | None:
    """Prompts of a run are new to the server; what it has in its cache costs no prefill."""
    hits = _told(evidence.server, "prefix_cache_hits_tokens")
    asked = _told(evidence.server, "prefix_cache_queries_tokens")
    if not hits or not asked or hits <= PREFIX_HITS_SHARE_SUSPECT * asked:
        return None
    return Reason(
        "invalid" if hits > PREFIX_HITS_SHARE_INVALID * asked else "suspect",
        f"the servers took {hits:,} of {asked:,} prompt tokens ({hits / asked:.1%}) from their prefix "
        "caches: first tokens came sooner than for new prompts",
    )


def failed_handoffs(evidence: Evidence) -> Reason | None:
    """A hand-off that fails makes a request fail, or a decode instance a mixed one."""
    failed = _told(evidence.server, "kv_transfers_failed")
    if not failed:
        return None
    return Reason("suspect", f"{failed:,} transfers of KV caches between instances failed")


def prefill_on_decode(evidence: Evidence) -> Reason | None:
    """A decode instance that works out prompts itself is no decode instance."""
    decode = [one for one in evidence.server if one["role"] == "decode"]
    computed = _told(decode, "prompt_tokens_computed")
    if not computed:
        return None
    whole = _told(decode, "prompt_tokens") or computed
    return Reason(
        "invalid" if computed > RECOMPUTED_SHARE_INVALID * whole else "suspect",
        f"decode instances worked out {computed:,} of {whole:,} prompt tokens themselves: that part "
        "of the load was not separated",
    )


def _told(figures: Iterable[ServerFigures], name: _Count) -> int | None:
    """Return the sum of a figure over the conditions that tell it; None where none does."""
    told = [value for one in figures if (value := one[name]) is not None]
    return sum(told) if told else None


_Count = Literal[
    "prefix_cache_hits_tokens",
    "prefix_cache_queries_tokens",
    "kv_transfers_failed",
    "prompt_tokens",
    "prompt_tokens_computed",
]

RULES: tuple[Callable[[Evidence], Reason | None], ...] = (
    nothing_finished,
    many_failed,
    issued_mismatch,
    late_stamps,
    clock_steps,
    coalesced,
    send_lag,
    connection_wait,
    worker_busy,
    stolen_time,
    prefix_cache_hits,
    failed_handoffs,
    prefill_on_decode,
    unreadable_lines,
    workers_missing,
    workers_stopped,
)


def judge(evidence: Evidence) -> Validity:
    """Apply every rule; reasons that make the run invalid come first."""
    reasons = [reason for rule in RULES if (reason := rule(evidence)) is not None]
    reasons.sort(key=lambda reason: reason.severity != "invalid")
    verdict: ValidityVerdict = reasons[0].severity if reasons else "valid"
    return Validity(verdict=verdict, reasons=[reason.text for reason in reasons])

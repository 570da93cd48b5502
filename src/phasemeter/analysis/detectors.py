"""What else is going on in a run: small detectors over its responses, each with its evidence.

A detection does not make figures wrong, it says how to read them. Each detector is one function that
returns None where it sees nothing; thresholds are constants beside it, with their reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from phasemeter.analysis.health import read_sizes
from phasemeter.analysis.shape import Detection
from phasemeter.core.timeline import Outcome, Timeline

CLUMP_EVENTS = 4
"""Token events in one read that make a clump: two or three happen to share a segment now and then."""

CLUMP_SHARE = 0.3
"""Share of token events in clumps from which a stream counts as buffered."""

CLUMP_SILENCE_NS = 20_000_000
"""Shorter silences before a clump are also made by a client that was kept from reading."""

BUFFERED_SHARE = 0.1
MULTI_TOKEN_SHARE = 0.1
CACHED_SHARE = 0.05
CONNECTING_SHARE = 0.2

CONNECTING_TTFT_SHARE = 0.1
"""Connecting that takes a smaller part of ttft does not change how it reads."""


def buffered_stream(timelines: Sequence[Timeline]) -> Detection | None:
    """Something between the server and here collects events and lets them go in clumps.

    The signature is several events in one read after a silence: time to first token goes up while
    gaps go down, and gaps between events within a clump cannot be known.
    """
    streams = [timeline for timeline in timelines if len(timeline.events) >= CLUMP_EVENTS]
    buffered = [
        timeline
        for timeline in streams
        if _clumped_share(timeline) >= CLUMP_SHARE and _silence_ns(timeline) >= CLUMP_SILENCE_NS
    ]
    if not streams or len(buffered) < BUFFERED_SHARE * len(streams):
        return None
    sizes = [size for timeline in buffered for size in read_sizes(timeline) if size > 1]
    silence_ms = median(map(_silence_ns, buffered)) / 1e6
    return Detection(
        kind="buffered_stream",
        text=(
            f"{len(buffered)} of {len(streams)} streams came in clumps, typically "
            f"{median(sizes):.0f} token events in one read after {silence_ms:.0f} ms of silence: a "
            "proxy or the server buffers. "
            "Gaps within a clump are unknown, and first tokens were held back."
        ),
        share=len(buffered) / len(streams),
    )


def multi_token_events(timelines: Sequence[Timeline]) -> Detection | None:
    """Events carry several tokens each: speculative decoding or a stream interval."""
    told = [e.tokens for timeline in timelines for e in timeline.events if e.tokens is not None]
    several = sum(tokens > 1 for tokens in told)
    if not told or several < MULTI_TOKEN_SHARE * len(told):
        return None
    return Detection(
        kind="multi_token_events",
        text=(
            f"{several / len(told):.0%} of the token events carry several tokens "
            f"({sum(told) / len(told):.1f} on average): a gap is a time between events, "
            "itl is the time per token."
        ),
        share=several / len(told),
    )


def prefix_cache_hits(timelines: Sequence[Timeline]) -> Detection | None:
    """The server read part of the prompts from its cache, so prefill was less than the prompts."""
    counted = [
        (timeline.usage.cached_input_tokens, timeline.usage.input_tokens)
        for timeline in timelines
        if timeline.usage.cached_input_tokens is not None and timeline.usage.input_tokens
    ]
    cached, whole = (sum(column) for column in zip(*counted, strict=True)) if counted else (0, 0)
    if not whole or cached < CACHED_SHARE * whole:
        return None
    return Detection(
        kind="prefix_cache_hits",
        text=(
            f"{cached / whole:.0%} of the prompt tokens came from the server's prefix cache: "
            "first tokens came sooner than for prompts it had not seen."
        ),
        share=cached / whole,
    )


def connecting_within_ttft(timelines: Sequence[Timeline]) -> Detection | None:
    """Many requests had to connect first, which ttft contains and ttft_wire does not."""
    sent = [timeline for timeline in timelines if timeline.sent_ns is not None]
    connecting = [timeline for timeline in sent if timeline.connected_ns is not None]
    if not sent or len(connecting) < CONNECTING_SHARE * len(sent):
        return None
    spent_ms = [((t.connected_ns or 0) - t.started_ns) / 1e6 for t in connecting]
    ttfts_ms = [(t.events[0].t_ns - t.started_ns) / 1e6 for t in sent if t.events]
    if not ttfts_ms or median(spent_ms) < CONNECTING_TTFT_SHARE * median(ttfts_ms):
        return None
    return Detection(
        kind="connecting_within_ttft",
        text=(
            f"{len(connecting)} of {len(sent)} requests opened a connection, {median(spent_ms):.1f} "
            "ms at the median: ttft contains that, ttft_wire does not."
        ),
        share=len(connecting) / len(sent),
    )


DETECTORS: tuple[Callable[[Sequence[Timeline]], Detection | None], ...] = (
    buffered_stream,
    multi_token_events,
    prefix_cache_hits,
    connecting_within_ttft,
)


def detect(timelines: Sequence[Timeline]) -> list[Detection]:
    """Run every detector over the ok responses."""
    finished = [timeline for timeline in timelines if timeline.outcome is Outcome.OK]
    found = (detector(finished) for detector in DETECTORS)
    return [detection for detection in found if detection is not None]


def _silence_ns(timeline: Timeline) -> float:
    """Return the time between two reads, or to the only one."""
    gaps_ns = [gap_ns for gap_ns, _ in timeline.gaps()]
    return median(gaps_ns) if gaps_ns else timeline.events[0].t_ns - timeline.started_ns


def _clumped_share(timeline: Timeline) -> float:
    sizes = read_sizes(timeline)
    return sum(size for size in sizes if size >= CLUMP_EVENTS) / sum(sizes)

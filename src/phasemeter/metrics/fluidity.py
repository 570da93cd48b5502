"""Fluidity: share of token deadlines met when slack carries over.

The first token is due after `ttft_deadline_ns`, each later one `gap_deadline_ns` after the one before;
time won is kept as slack, and one long stall misses as many deadlines as fit into it. Coalesced events
count too: a deadline asks when a token was there, which is known of them. Definition: Etalon,
arXiv 2407.07000, in the semantics of its published code.
"""

from __future__ import annotations

from itertools import pairwise

from phasemeter.core.timeline import Timeline


def fluidity(timeline: Timeline, *, ttft_deadline_ns: int, gap_deadline_ns: int) -> float | None:
    """Return the share of deadlines met (0 to 1), or None for a response without a token.

    Raises:
        ValueError: If a deadline is not positive.
    """
    counts = deadlines(timeline, ttft_deadline_ns, gap_deadline_ns)
    return None if counts is None else counts[0] / sum(counts)


def deadlines(
    timeline: Timeline, ttft_deadline_ns: int, gap_deadline_ns: int
) -> tuple[int, int] | None:
    """Return how many deadlines were met and missed, or None for a response without a token.

    Raises:
        ValueError: If a deadline is not positive.
    """
    if ttft_deadline_ns <= 0 or gap_deadline_ns <= 0:
        msg = f"deadlines must be > 0 ns, got {ttft_deadline_ns} and {gap_deadline_ns}"
        raise ValueError(msg)
    if timeline.first_token_ns is None or not timeline.streamed:
        return None
    ttft_ns = timeline.first_token_ns - timeline.started_ns
    met = missed = 0
    if ttft_ns <= ttft_deadline_ns:
        met, slack_ns = 1, ttft_deadline_ns - ttft_ns
    else:
        missed, slack_ns = 1 + (ttft_ns - ttft_deadline_ns) // gap_deadline_ns, 0
    for earlier, later in pairwise(timeline.events):
        gap_ns = later.t_ns - earlier.t_ns
        if gap_ns <= gap_deadline_ns + slack_ns:
            slack_ns += gap_deadline_ns - gap_ns
            met += 1
        else:
            missed += (gap_ns - slack_ns) // gap_deadline_ns
            slack_ns = 0
    return met, missed

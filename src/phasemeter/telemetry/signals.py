"""The signals that are read from a server's metrics page, whatever it calls them.

Counters only grow while a server lives, so what they say of a stretch is the difference of two samples.
Gauges are what they are at a moment.
"""

from __future__ import annotations

from typing import Literal, get_args

Counter = Literal[
    "prompt_tokens",
    "prompt_tokens_computed",
    "generation_tokens",
    "requests",
    "preemptions",
    "prefix_cache_queries_tokens",
    "prefix_cache_hits_tokens",
    "external_cache_queries_tokens",
    "external_cache_hits_tokens",
    "queue_time_s",
    "queue_time_count",
    "prefill_time_s",
    "prefill_time_count",
    "kv_transfers",
    "kv_transfer_bytes",
    "kv_transfer_time_s",
    "kv_transfers_failed",
]
"""`prompt_tokens_computed` are those that this server's own prefill had to work out: neither from its
prefix cache nor from another instance. `external_cache` is what came, or could have come, from another
instance or store; `kv_transfer` are the hand-offs that this server pulled."""

Gauge = Literal["running_requests", "waiting_requests", "kv_cache_usage"]

Signal = Counter | Gauge

COUNTERS: tuple[Counter, ...] = get_args(Counter)
GAUGES: tuple[Gauge, ...] = get_args(Gauge)

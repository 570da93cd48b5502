"""SGLang's metrics (`--enable-metrics`), after its source; not met running.

Its cached tokens may come from the device, the host or a storage behind it; all are prefix cache hits.
"""

from __future__ import annotations

from phasemeter.telemetry.flavour import Flavour, Source

SGLANG = Flavour(
    name="sglang",
    prefix="sglang:",
    sources={
        "prompt_tokens": (Source("sglang:prompt_tokens"),),
        "generation_tokens": (Source("sglang:generation_tokens"),),
        "requests": (Source("sglang:num_requests"),),
        "prefix_cache_queries_tokens": (Source("sglang:prompt_tokens"),),
        "prefix_cache_hits_tokens": (Source("sglang:cached_tokens"),),
        "queue_time_s": (Source("sglang:queue_time_seconds_sum"),),
        "queue_time_count": (Source("sglang:queue_time_seconds_count"),),
        "running_requests": (Source("sglang:num_running_reqs"),),
        "waiting_requests": (Source("sglang:num_queue_reqs"),),
        "kv_cache_usage": (Source("sglang:token_usage"),),
    },
)

"""vLLM's metrics (V1, checked with 0.32), which the lab engine's page follows.

Queue and prefill histograms begin at 0.3 s, so only their sums and counts are of use. On an instance that
takes part in a hand-off the queue's time holds the pull of the KV cache. `nixl` samples are there with
the NixlConnector only, and count at the instance that pulls.
"""

from __future__ import annotations

from phasemeter.telemetry.flavour import Flavour, Source

VLLM = Flavour(
    name="vllm",
    prefix="vllm:",
    sources={
        "prompt_tokens": (Source("vllm:prompt_tokens"),),
        "prompt_tokens_computed": (
            Source("vllm:prompt_tokens_by_source", {"source": "local_compute"}),
        ),
        "generation_tokens": (Source("vllm:generation_tokens"),),
        "requests": (Source("vllm:request_success"), Source("phasemeter_lab_requests")),
        "preemptions": (Source("vllm:num_preemptions"),),
        "prefix_cache_queries_tokens": (
            Source("vllm:prefix_cache_queries"),
            Source("vllm:gpu_prefix_cache_queries"),
        ),
        "prefix_cache_hits_tokens": (
            Source("vllm:prefix_cache_hits"),
            Source("vllm:gpu_prefix_cache_hits"),
        ),
        "external_cache_queries_tokens": (Source("vllm:external_prefix_cache_queries"),),
        "external_cache_hits_tokens": (Source("vllm:external_prefix_cache_hits"),),
        "queue_time_s": (Source("vllm:request_queue_time_seconds_sum"),),
        "queue_time_count": (Source("vllm:request_queue_time_seconds_count"),),
        "prefill_time_s": (Source("vllm:request_prefill_time_seconds_sum"),),
        "prefill_time_count": (Source("vllm:request_prefill_time_seconds_count"),),
        "kv_transfers": (Source("vllm:nixl_xfer_time_seconds_count"),),
        "kv_transfer_bytes": (Source("vllm:nixl_bytes_transferred_sum"),),
        "kv_transfer_time_s": (Source("vllm:nixl_xfer_time_seconds_sum"),),
        "kv_transfers_failed": (Source("vllm:nixl_num_failed_transfers"),),
        "running_requests": (Source("vllm:num_requests_running"),),
        "waiting_requests": (Source("vllm:num_requests_waiting"),),
        "kv_cache_usage": (Source("vllm:kv_cache_usage_perc"), Source("vllm:gpu_cache_usage_perc")),
    },
)

"""inference-perf, the load tester of Kubernetes' serving working group."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.peers.environment import ensure, newer_python
from benchmarks.peers.tool import Load, Reported, UnavailableError, count_gaps

_PINNED = "inference-perf==0.7.0"
_OLDEST_PYTHON = (3, 12)


class InferencePerf:
    """Its gaps are the `inter_token_latency`, pooled over all requests."""

    name = "inference-perf"
    package = "inference-perf"
    note = "gaps are its inter_token_latency"

    def install(self, environment: Path) -> None:
        python = newer_python(_OLDEST_PYTHON)
        if python is None:
            msg = "needs Python 3.12 or later, and none is found"
            raise UnavailableError(msg)
        ensure(environment, [_PINNED], python=python)

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        out.mkdir(parents=True, exist_ok=True)
        configuration = out / "configuration.yaml"
        configuration.write_text(json.dumps(_configuration(load, out)))  # JSON is YAML
        program = environment / "bin" / "inference-perf"
        return [str(program), "--config_file", str(configuration)]

    def read(self, out: Path) -> Reported:
        summary = json.loads((out / "summary_lifecycle_metrics.json").read_text())["successes"]
        requests = json.loads((out / "per_request_lifecycle_metrics.json").read_text())
        gaps_ms = [
            gap_s * 1000
            for one in requests
            if "computed_metrics" in one
            for gap_s in one["computed_metrics"]["inter_token_latencies"]
        ]
        gaps, zero_gaps = count_gaps(gaps_ms)
        ttft, gap = (
            summary["latency"][name] for name in ("time_to_first_token", "inter_token_latency")
        )
        return Reported(
            requests=summary["count"],
            ttft_p50_ms=ttft["median"] * 1000,
            ttft_p99_ms=ttft["p99"] * 1000,
            gap_p99_ms=gap["p99"] * 1000,
            gap_max_ms=gap["max"] * 1000,
            gaps=gaps,
            zero_gaps=zero_gaps,
        )


def _configuration(load: Load, out: Path) -> dict[str, object]:
    def fixed(tokens: int) -> dict[str, object]:
        return {"type": "fixed", "mean": tokens, "min": tokens, "max": tokens}

    fields = ("request", "response", "info", "response_chunks")
    return {
        "api": {"type": "completion", "streaming": True},
        "server": {
            "type": "vllm",
            "model_name": load.model,
            "base_url": load.url,
            "ignore_eos": True,
        },
        "tokenizer": {"pretrained_model_name_or_path": load.model},
        "data": {
            "type": "random",
            "input_distribution": {
                **fixed(load.prompt_tokens),
                "total_count": load.requests + 1,
            },
            "output_distribution": {**fixed(load.tokens), "total_count": load.requests + 1},
        },
        "load": {
            "type": "concurrent",
            "worker_max_concurrency": load.users,
            "stages": [{"num_requests": load.requests, "concurrency_level": load.users}],
        },
        "report": {
            "request_lifecycle": {
                "summary": True,
                "per_stage": False,
                "per_adapter": False,
                "per_request": True,
                "per_request_fields": {
                    **dict.fromkeys(fields, False),
                    "computed_metrics": True,
                },
            }
        },
        "storage": {"local_storage": {"path": str(out)}},
    }

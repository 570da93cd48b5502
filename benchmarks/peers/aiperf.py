"""AIPerf, NVIDIA's load tester (successor of GenAI-Perf)."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.peers.environment import ensure
from benchmarks.peers.tool import Load, Reported, count_gaps


class AIPerf:
    """Its gaps are the `inter_chunk_latency`, which the console hides; its ITL is a mean a request."""

    name = "aiperf"
    package = "aiperf"
    note = "gaps are its inter_chunk_latency"

    def install(self, environment: Path) -> None:
        ensure(environment, ["aiperf==0.13.0"])

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        return [
            str(environment / "bin" / "aiperf"),
            "profile",
            *("--model", load.model, "--tokenizer", load.model, "--url", load.url),
            *("--endpoint-type", "completions", "--streaming"),
            *("--concurrency", str(load.users), "--request-count", str(load.requests)),
            *("--isl", str(load.prompt_tokens), "--isl-stddev", "0"),
            *("--osl", str(load.tokens), "--osl-stddev", "0"),
            *("--extra-inputs", "ignore_eos:true"),
            *("--output-artifact-dir", str(out), "--export-level", "records"),
            *("--ui", "none", "--no-gpu-telemetry", "--no-server-metrics"),
        ]

    def read(self, out: Path) -> Reported:
        summary = json.loads((out / "profile_export_aiperf.json").read_text())
        gaps_ms: list[float] = []
        for line in (out / "profile_export.jsonl").read_text().splitlines():
            metrics = json.loads(line).get("metrics", {})
            gaps_ms += metrics.get("inter_chunk_latency", {}).get("value") or []
        gaps, zero_gaps = count_gaps(gaps_ms)
        ttft, gap = summary["time_to_first_token"], summary.get("inter_chunk_latency", {})
        return Reported(
            requests=round(summary["request_count"]["avg"]),
            ttft_p50_ms=ttft["p50"],
            ttft_p99_ms=ttft["p99"],
            gap_p99_ms=gap.get("p99"),
            gap_max_ms=gap.get("max"),
            gaps=gaps,
            zero_gaps=zero_gaps,
        )

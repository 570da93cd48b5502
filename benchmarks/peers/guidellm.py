"""GuideLLM, vLLM's recommended load tester. It keeps first, last and count, hence no gap."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.peers.environment import ensure
from benchmarks.peers.tool import Load, Reported


class GuideLLM:
    """Its inter-token latency is one mean a request: a stall cannot be seen in it."""

    name = "guidellm"
    package = "guidellm"
    note = "keeps no gaps, only a mean a request"

    def install(self, environment: Path) -> None:
        ensure(environment, ["guidellm==0.8.1"])

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        backend = f"kind=openai_http,target={load.url},model={load.model}"
        data = f"prompt_tokens={load.prompt_tokens},output_tokens={load.tokens}"
        return [
            str(environment / "bin" / "guidellm"),
            "run",
            *("--backend", f"{backend},request_format=/v1/completions"),
            *("--profile", f"kind=concurrent,streams={load.users}"),
            *("--constraint", f"kind=max_requests,count={load.requests}"),
            *("--tokenizer", f"kind=huggingface_auto,model={load.model}"),
            *("--data", f"kind=synthetic_text,{data}"),
            *("--output", f"kind=json,path={out / 'benchmarks.json'}"),
            "--disable-console",
        ]

    def read(self, out: Path) -> Reported:
        document = json.loads((out / "benchmarks.json").read_text())
        ttft = document["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]
        return Reported(
            requests=ttft["count"],
            ttft_p50_ms=ttft["percentiles"]["p50"],
            ttft_p99_ms=ttft["percentiles"]["p99"],
        )

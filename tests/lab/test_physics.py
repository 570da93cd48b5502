import pytest

from phasemeter.lab.physics import format_costs, measure_physics


def test_a_table_has_one_line_a_cost():
    """The tiny model, one repetition: positive rates, and all sizes asked for."""
    costs = measure_physics(
        "tiny", prompts=(64,), batches=(1, 2), context_tokens=8, repeats=1, matmul_rows=64
    )

    assert [(cost.phase, cost.size) for cost in costs] == [
        ("matmul", 64),
        ("prefill", 64),
        ("decode", 1),
        ("decode", 2),
    ]
    assert all(cost.flops_per_s > 0 for cost in costs)
    lines = format_costs(costs).splitlines()
    assert len(lines) == 5
    assert lines[1].endswith("100.0%")
    assert lines[2].endswith(f"{costs[1].flops_per_s / costs[0].flops_per_s:.1%}")


@pytest.mark.lab
def test_prefill_is_compute_bound_and_decode_gains_from_batching():
    """The physics of the experiment: far apart alone, closer the larger the batch.

    An AVX-512 core shows 11 x and 4.6 x, an AVX2 core 6.5 x and 2.9 x; the limits leave room for
    a busy machine.
    """
    costs = {(cost.phase, cost.size): cost.flops_per_s for cost in measure_physics(repeats=3)}
    single = costs["decode", 1]

    assert all(costs["prefill", tokens] > 4 * single for tokens in (512, 1024, 2048))
    assert costs["decode", 16] > 2 * single

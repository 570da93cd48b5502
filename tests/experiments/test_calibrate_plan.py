import pytest

from phasemeter.core.errors import UsageError
from phasemeter.experiments.calibrate_plan import (
    CalibrationSettings,
    beside_stage,
    idle_stages,
    lengths_up_to,
)


def test_prompts_come_one_at_a_time_in_random_order():
    settings = CalibrationSettings(repeats=5)
    prompts, *decode = idle_stages(settings)
    (flow,) = prompts.plan.flows

    sent = [one.request_class for _, one in zip(range(35), flow.requests_of(0, 1), strict=False)]

    assert flow.users == 1
    assert prompts.requests == flow.max_requests == 35
    lengths = [one.prompt_tokens for one in sent]
    assert {lengths.count(tokens) for tokens in settings.prompt_tokens} == {5}
    assert lengths != sorted(lengths)
    assert {one.output_tokens for one in sent} == {1}
    assert [stage.requests for stage in decode] == [1, 2, 4, 8]
    other = idle_stages(CalibrationSettings(repeats=5, seed=2))[0].plan.flows[0]
    assert other.mix != flow.mix
    assert sorted(other.mix, key=str) == sorted(flow.mix, key=str)


@pytest.mark.parametrize("limit", [None, 16, 64, 512, 1000, 2048, 4096, 131_072])
def test_lengths_fit_the_server(limit):
    lengths = lengths_up_to(limit)

    assert list(lengths) == sorted(set(lengths))
    assert limit is None or lengths[-1] + 4 <= limit
    if limit is None or limit >= 64:
        assert len(lengths) >= 6
        CalibrationSettings(prompt_tokens=lengths)


def test_the_last_stage_is_sized_by_what_was_seen():
    settings = CalibrationSettings()
    stage = beside_stage(settings, longest_ms=500.0, step_ms=10.0, max_model_len=4096)
    streams, injected = stage.plan.flows

    assert streams.users == 3
    assert [one.prompt_tokens for one in injected.mix] == [1024, 2048, 3072, 4096] * 2
    assert injected.start_s > streams.spread_s
    assert stage.plan.duration_s == pytest.approx(1.5 + 0.2 + 8 * 1.7)
    assert max(one.output_tokens for one in streams.mix) <= 4096 - 32


def test_few_lengths_or_repeats_are_refused():
    with pytest.raises(UsageError, match="--prompt-tokens: 1,2,3; accepted: at least 6"):
        CalibrationSettings(prompt_tokens=(1, 2, 3))
    with pytest.raises(UsageError, match="--repeats: 4"):
        CalibrationSettings(repeats=4)

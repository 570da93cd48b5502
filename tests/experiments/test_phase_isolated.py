import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.experiments.phase_isolated import (
    Level,
    Pace,
    PlannerSettings,
    best_level,
    decode_class,
    decode_run,
    mean_context,
    mean_lengths,
    mix_run,
    next_users,
    prefill_run,
    still_rising,
)
from phasemeter.load.workload import RequestClass, parse_mix

MIX = parse_mix("short=60%:256/128,long=40%:3000/100")
SETTINGS = PlannerSettings(mix=MIX)


def search(rate_of, *, first=1, most=256, patience=1, slots=None):
    """Let the search ask a server whose rate is a function of users."""
    levels = []
    while (users := next_users(levels, first=first, most=most, patience=patience)) is not None:
        assert len(levels) < 20
        fits = slots is None or users <= slots
        together = None if slots is None else min(users, slots)
        levels.append(Level(users, rate_of(users) if fits else None, together))
    return levels


def test_lengths_of_the_mix():
    """Means by share; the context by share of output tokens, from the middle of each answer."""
    assert mean_lengths(MIX) == pytest.approx((0.6 * 256 + 0.4 * 3000, 0.6 * 128 + 0.4 * 100))
    short, long = 0.6 * 128, 0.4 * 100
    context = (short * (256 + 64) + long * (3000 + 50)) / (short + long)
    assert mean_context(MIX) == pytest.approx(context)


def test_a_search_ends_where_doubling_brings_nothing():
    """40 at 4 users, 41 at 8: 4 doublings at most after that."""
    levels = search(lambda users: min(10 * users, 40 + users / 8))

    assert [level.users for level in levels] == [1, 2, 4, 8]
    assert best_level(levels).users == 8
    assert not still_rising(levels, 256)


def test_patience_looks_past_a_step():
    """Prompts that only batch from four users on are found."""
    rates = {1: 10, 2: 10, 4: 20, 8: 20, 16: 20}
    assert [level.users for level in search(rates.get)] == [1, 2]
    assert [level.users for level in search(rates.get, patience=2)] == [1, 2, 4, 8, 16]


def test_a_search_that_ends_at_its_limit_says_so():
    levels = search(lambda users: 10 * users, most=12)

    assert [level.users for level in levels] == [1, 2, 4, 8, 12]
    assert still_rising(levels, 12)


def test_where_the_slots_end_as_many_streams_as_there_are_slots_are_tried():
    """24 slots: 32 streams never decode together, 24 do."""
    levels = search(lambda users: 10 * users, slots=24)

    assert [level.users for level in levels] == [1, 2, 4, 8, 16, 32, 24]
    assert best_level(levels).users == 24
    assert [level.users for level in search(lambda users: 10 * users, slots=16)] == [
        *(1, 2, 4, 8, 16, 32)
    ]


def test_a_server_that_serves_nothing_ends_the_search():
    levels = search(lambda _: None)

    assert [level.users for level in levels] == [1]
    assert best_level(levels) is None


@given(st.integers(1, 256), st.floats(100, 1e6), st.floats(0.001, 0.2), st.integers(1, 5000))
def test_streams_that_decode_alone_last_long_enough_at_the_mixs_context(
    streams, rate, step_s, prompt
):
    """All prompts are read in half the time of an answer, and the context is the mix's."""
    settings = PlannerSettings(mix=(RequestClass("one", prompt, 20),))
    wanted = decode_class(settings, streams, Pace(rate, step_s))

    prompts_s = streams * wanted.prompt_tokens / rate
    assert wanted.output_tokens >= 20
    if wanted.prompt_tokens > 1:  # else there is nothing left to make shorter
        assert 2 * prompts_s <= wanted.output_tokens * step_s * 1.01 + streams / rate
        context = wanted.prompt_tokens + wanted.output_tokens / 2
        assert context == pytest.approx(mean_context(settings.mix), abs=1)


def test_the_context_can_be_set():
    settings = PlannerSettings(mix=MIX, decode_context_tokens=70)

    assert decode_class(settings, 1, Pace(1e6)) == RequestClass("streams", 6, 128)


def test_prompts_alone_ask_for_one_token():
    run = prefill_run(SETTINGS, 4, 1, None)

    assert run.condition == "prefill@4"
    assert {(one.prompt_tokens, one.output_tokens) for one in run.plan.classes()} == {
        (256, 1),
        (3000, 1),
    }
    assert [phase.name for phase in run.phases] == ["warm-up", "measure", "cool-down"]


def test_the_measured_time_is_whole_turns_between_a_warm_up_and_a_cool_down():
    """600 users at 10 requests/s: a request takes 60 s, so 20 s would see no steady state."""
    run = mix_run(SETTINGS, "mixed", 600, 1, 10.0)

    lengths = [phase.end_s - phase.start_s for phase in run.phases]
    assert lengths == pytest.approx([2 + 60, 240, 60])
    (flow,) = run.plan.flows
    assert flow.stop_s == run.plan.duration_s == pytest.approx(362)
    assert flow.tags == {"arm": "mixed", "condition": "mix@600", "repeat": "1"}
    searched = mix_run(SETTINGS, "mixed", 1, 0, 10.0).phases[1]
    assert searched.name == "search"
    assert searched.end_s - searched.start_s == SETTINGS.search_s


def test_streams_have_time_to_start_before_they_are_measured():
    """64 prompts at 10,000 tokens/s, and twice an answer's time besides."""
    run = decode_run(SETTINGS, 64, 1, Pace(10_000, 0.01))
    (wanted,) = run.plan.classes()

    prompts_s = 64 * wanted.prompt_tokens / 10_000
    lengths = [phase.end_s - phase.start_s for phase in run.phases]
    answer_s = wanted.output_tokens * 0.01
    assert lengths == pytest.approx([2 + prompts_s, max(20, prompts_s + 2 * answer_s), 0])

"""Steps told from arrivals: against engines whose steps are known, and every reason to refuse."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.analysis import steps
from phasemeter.analysis.steps import UNKNOWN_NS, Refusal, StepSeries, reconstruct
from tests.analysis.run_factory import MS, make_timeline
from tests.analysis.stepping import PaperEngine


def series_of(timelines):
    series = reconstruct(timelines)
    assert isinstance(series, StepSeries), series
    return series


def refusal_of(timelines):
    refusal = reconstruct(timelines)
    assert isinstance(refusal, Refusal), refusal
    return refusal.reason


def test_three_streams_by_hand():
    """Two tokens of a stream are never of one step; the third stream joins and another one leaves."""
    period = [10.0] * 24
    series = series_of(
        [
            make_timeline("a", first_ms=100.0, gaps_ms=period),
            make_timeline("b", first_ms=100.6, gaps_ms=period),
            # From the fourth step on, and 0.4 ms before the others.
            make_timeline("c", first_ms=129.6, gaps_ms=period[:10]),
        ]
    )

    assert series.ends_ns.size == 25
    assert (series.ends_ns[:3] / MS).tolist() == [100.0, 110.0, 120.0]
    assert series.ends_ns[3] == 129.6 * MS  # the earliest arrival of the step
    assert series.first_tokens.tolist()[:5] == [2, 0, 0, 1, 0]
    assert series.decodes.tolist()[:5] == [0, 2, 2, 2, 3]
    assert series.durations_ns[0] == UNKNOWN_NS  # nothing ran before
    assert series.known_ns.size == 24
    assert series.in_step_share == 1.0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    streams=st.integers(2, 12),
    jitter_share=st.floats(0, 0.2),
    lengths=st.lists(st.integers(1, 3_000), max_size=6),
    budget=st.sampled_from([64, 128, 256, 512]),
)
def test_every_step_is_found_whatever_the_prompts(seed, streams, jitter_share, lengths, budget):
    """As many steps as there were, each within what the tokens were scattered."""
    engine = PaperEngine(streams=streams, budget=budget, jitter_ms=10.0 * jitter_share, seed=seed)
    engine.decode(20)
    for tokens in lengths:
        engine.prompt(tokens)
        engine.decode(20)

    series = series_of(engine.timelines())

    assert series.ends_ns.size == len(engine.step_ms)
    errors_ms = np.abs(series.durations_ns[1:] / MS - engine.durations_ms)
    assert errors_ms.max() <= 10.0 * jitter_share + 1e-6


def test_a_step_that_left_in_two_parts_is_one_step():
    """A server that was held up while it sent: the later half does not make another step."""
    early = [100.0 + 10 * k for k in range(30)]
    late = [t_ms + 7.0 if k in (9, 17) else t_ms for k, t_ms in enumerate(early)]

    def stream(name, times):
        gaps = [b - a for a, b in pairwise(times)]
        return make_timeline(name, first_ms=times[0], gaps_ms=gaps)

    series = series_of(
        [stream("a", early), stream("b", early), stream("c", late), stream("d", late)]
    )

    assert series.ends_ns.size == 30
    assert (series.known_ns == 10 * MS).all()


def test_a_step_that_held_a_prompt_only_is_a_step():
    """Prefill first: the others stand still, and only the prompt's own token comes."""
    times = [100.0 + 10 * k for k in range(12)]
    times += [
        times[-1] + 60 + 10 * k for k in range(12)
    ]  # 50 ms for the prompt, then a decode step
    gaps = [b - a for a, b in pairwise(times)]
    prompt = make_timeline("p", start_ms=205, first_ms=times[11] + 50.2)

    series = series_of([*(make_timeline(n, first_ms=100.0, gaps_ms=gaps) for n in "abc"), prompt])

    assert series.ends_ns.size == 25
    assert series.decodes[12] == 0
    assert series.first_tokens[12] == 1
    assert series.durations_ns[12] / MS == pytest.approx(50.2)
    assert series.durations_ns[13] / MS == pytest.approx(9.8)


def test_the_time_in_which_nothing_ran_is_no_step():
    first = [make_timeline(n, first_ms=100.0, gaps_ms=[10.0] * 14) for n in "ab"]
    second = [make_timeline(n, first_ms=9_000.0, gaps_ms=[10.0] * 14) for n in "cd"]

    series = series_of([*first, *second])

    assert series.ends_ns.size == 30
    assert np.count_nonzero(series.durations_ns == UNKNOWN_NS) == 2
    assert series.known_ns.max() == 10 * MS


def test_several_tokens_in_one_read_are_several_steps_and_none_is_timed():
    gaps = [10.0] * 30
    whole = make_timeline("a", first_ms=100.0, gaps_ms=gaps)
    # The second stream's tokens of steps 11 and 12 come together with that of step 13.
    piled = make_timeline(
        "b", first_ms=100.0, gaps_ms=[*gaps[:10], 30.0, 0.0, 0.0, *gaps[13:]], coalesced=(12, 13)
    )

    series = series_of([whole, piled])

    assert series.ends_ns.size == 31
    unknown = np.flatnonzero(series.durations_ns == UNKNOWN_NS).tolist()
    assert unknown == [0, 13]
    assert (series.known_ns == 10 * MS).all()


def test_a_stream_alone_tells_no_steps():
    alone = make_timeline("a", first_ms=100.0, gaps_ms=[10.0] * 40)
    then = make_timeline("b", first_ms=900.0, gaps_ms=[10.0] * 40)

    assert "one at a time" in refusal_of([alone])
    assert "one at a time" in refusal_of([alone, then])


def test_few_steps_tell_nothing():
    assert refusal_of([make_timeline(n, first_ms=100.0, gaps_ms=[10.0] * 5) for n in "ab"]) == (
        "6 steps; 20 are needed"
    )


def test_events_of_several_tokens_are_refused():
    streams = [make_timeline(n, first_ms=100.0, gaps_ms=[10.0] * 40, tokens=3) for n in "ab"]
    assert "several tokens" in refusal_of(streams)


def test_events_of_unknown_tokens_are_refused_unless_usage_tells():
    def streams(usage):
        return [
            make_timeline(n, first_ms=100.0, gaps_ms=[10.0] * 40, tokens=None, usage_tokens=usage)
            for n in "ab"
        ]

    assert "do not tell how many tokens" in refusal_of(streams(None))
    assert "several tokens" in refusal_of(streams(123))
    assert series_of(streams(41)).ends_ns.size == 41


def test_coalesced_reads_are_refused():
    gaps = [10.0 if k % 2 else 0.0 for k in range(40)]
    streams = [
        make_timeline(n, first_ms=100.0, gaps_ms=gaps, coalesced=range(1, 41, 2)) for n in "ab"
    ]
    assert "one read with others" in refusal_of(streams)


def test_stamps_of_the_application_are_refused():
    streams = [
        make_timeline(n, first_ms=100.0, gaps_ms=[10.0] * 40, stamp_source="pull") for n in "ab"
    ]
    assert "stamped by pull" in refusal_of(streams)


def test_a_set_clock_is_refused():
    streams = [
        make_timeline(n, first_ms=100.0, gaps_ms=[10.0] * 40, clock_stepped=True) for n in "ab"
    ]
    assert "wall clock" in refusal_of(streams)


@pytest.mark.parametrize("second_ms", [10.0, 10.7, 13.0, 31.0])
def test_two_engines_behind_one_address_are_refused(second_ms):
    """Whether the other engine's steps are as long, a little longer, or much longer."""
    first = PaperEngine(streams=4, decode_ms=10.0, seed=1)
    first.decode(200)
    second = PaperEngine(streams=4, decode_ms=second_ms, seed=2)
    second.now_ms += 4.0
    second.decode(int(200 * 10 / second_ms))

    assert "several engines behind one address" in refusal_of(
        [*first.timelines(), *second.timelines()]
    )


def test_a_buffering_proxy_is_refused():
    """It lets the streams' events go at times of its own."""
    rng = np.random.default_rng(1)
    streams = []
    for name in "abcd":
        times = np.cumsum(np.full(200, 10.0)) + rng.uniform(0, 30, 200)
        times = np.sort(times)
        streams.append(make_timeline(name, first_ms=times[0], gaps_ms=np.diff(times).tolist()))
    assert "buffers" in refusal_of(streams)


def test_a_long_run_is_cut_and_says_so(monkeypatch):
    engine = PaperEngine(streams=3)
    engine.decode(100)
    later = PaperEngine(streams=3)
    later.now_ms = 5_000.0
    later.decode(100)
    monkeypatch.setattr(steps, "MOST_EVENTS", 320)

    series = series_of([*engine.timelines(), *later.timelines()])

    assert series.is_cut
    assert series.ends_ns.size == 100
    assert not series_of(engine.timelines()).is_cut

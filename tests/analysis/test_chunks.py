"""Chunks and token budgets, by hand and against engines whose scheduler is known."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from phasemeter.analysis.chunks import ChunkCount, TokenBudget, count_chunks, token_budget
from phasemeter.analysis.steps import Refusal, reconstruct
from tests.analysis.stepping import PaperEngine


def counted(engine):
    timelines = engine.timelines()
    series = reconstruct(timelines)
    assert not isinstance(series, Refusal), series
    return count_chunks(series, timelines)


def chunk_count(tokens, chunks, decodes, beside=0):
    return ChunkCount("r", tokens, beside, range(chunks), (decodes,) * chunks, 1e7)


def test_bounds_of_the_budget_by_hand():
    # 1000 tokens beside 4 streams in 4 chunks: 3 of them held less than 1000, 4 at least 1000.
    assert chunk_count(1000, 4, 4).budget() == (254, 337)
    # ceil(1000 / (254 - 4)) = 4 and ceil(1000 / (337 - 4)) = 4, and with one more or less not so.
    assert -(-1000 // 250) == -(-1000 // 333) == 4
    assert -(-1000 // 249) == 5
    assert -(-1000 // 334) == 3
    assert chunk_count(1000, 1, 4).budget() == (1004, None)
    # What other prompts took of the first three chunks is not known, so the upper bound is wider.
    assert chunk_count(1000, 4, 4, beside=60).budget() == (254, 357)


def test_intervals_of_several_prompts_meet():
    counts = [chunk_count(1000, 4, 4), chunk_count(600, 3, 4), chunk_count(2000, 8, 4)]
    assert [count.budget() for count in counts] == [(254, 337), (204, 303), (254, 289)]
    assert token_budget(counts) == TokenBudget(254, 289, 3, 3)


def test_a_count_that_is_wrong_is_outvoted():
    counts = [chunk_count(1000, 4, 4)] * 4 + [chunk_count(1000, 6, 4)]
    assert token_budget(counts) == TokenBudget(254, 337, 4, 5)


def test_counts_that_contradict_each_other_give_no_budget():
    counts = [chunk_count(1000, chunks, 4) for chunks in (2, 4, 8)]
    refusal = token_budget(counts)
    assert isinstance(refusal, Refusal)
    assert "no token budget fits" in refusal.reason


def test_prompts_that_were_never_cut_give_a_lower_bound():
    assert token_budget([chunk_count(tokens, 1, 4) for tokens in (100, 3000, 700)]) == TokenBudget(
        3004, None, 3, 3
    )


def test_two_prompts_are_too_few():
    refusal = token_budget([chunk_count(1000, 4, 4)] * 2)
    assert isinstance(refusal, Refusal)
    assert "2 prompts" in refusal.reason


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    streams=st.integers(2, 12),
    budget=st.integers(64, 2048),
    lengths=st.lists(st.integers(200, 4_000), min_size=4, max_size=8),
    sent_share=st.floats(0.01, 0.99),
)
@example(seed=0, streams=12, budget=64, lengths=[200] * 4, sent_share=0.5)
@example(seed=2447, streams=11, budget=64, lengths=[200] * 4, sent_share=0.5)
def test_chunks_are_counted_exactly_and_the_budget_lies_within(
    seed, streams, budget, lengths, sent_share
):
    engine = PaperEngine(streams=streams, budget=budget, seed=seed)
    engine.decode(20)
    for tokens in lengths:
        engine.prompt(tokens, sent_share=sent_share)
        engine.decode(20)

    counts = counted(engine)

    assert {count.request_id: count.chunks for count in counts} == engine.chunks
    found = token_budget(counts)
    assert isinstance(found, TokenBudget)
    assert found.agreeing == len(lengths)
    assert found.at_least <= budget
    assert found.at_most is None or budget <= found.at_most
    # Every budget of the interval cuts these prompts into as many chunks.
    for one in {found.at_least, found.at_most or found.at_least}:
        assert [-(-tokens // (one - streams)) for tokens in lengths] == list(engine.chunks.values())


def test_prompts_at_the_same_time_are_left_out():
    engine = PaperEngine()
    engine.decode(20)
    engine.prompt(1000)
    engine.decode(20)
    _, _, sent_ms, first_ms = engine.prompts[0]
    engine.prompts.append(("other", 500, sent_ms - 5, first_ms - 10))

    assert counted(engine) == []


def test_a_small_prompt_beside_a_long_one_widens_its_bounds_only():
    engine = PaperEngine()
    engine.decode(20)
    engine.prompt(2000)
    engine.decode(20)
    _, _, sent_ms, _ = engine.prompts[0]
    under_way_ms = 100 + 21 * engine.decode_ms
    engine.prompts.append(("small", 8, sent_ms, under_way_ms + 0.1))

    (count,) = counted(engine)

    assert (count.prompt_tokens, count.chunks, count.tokens_beside) == (2000, 8, 8)


def test_steps_that_prompts_do_not_lengthen_tell_no_chunks():
    """Decoding is bound by memory and the chunk is small: nothing to see."""
    engine = PaperEngine(token_ms=0.001)
    engine.decode(20)
    engine.prompt(1000)
    engine.decode(20)

    assert counted(engine) == []


def test_a_step_that_something_else_held_up_is_no_chunk():
    engine = PaperEngine(decode_ms=10.0, token_ms=0.1, budget=256)
    engine.decode(20)
    engine.decode_ms = 17.0  # the step under way as the prompt is sent
    sent_ms = engine.now_ms + 3
    engine._step()
    engine.decode_ms = 10.0
    for chunk in (252, 252, 252, 44):
        engine._step(chunk)
    engine.prompts.append(("p0", 800, sent_ms, engine.now_ms))
    engine.decode(20)

    assert [count.chunks for count in counted(engine)] == [4]


def test_later_chunks_of_a_long_prompt_take_longer():
    """Attention grows with what is cached: the last chunk takes three times the first."""
    engine = PaperEngine(decode_ms=10.0, token_ms=0.1, budget=256)
    engine.decode(20)
    sent_ms = engine.now_ms + 3
    engine._step()
    for number in range(16):
        engine.token_ms = 0.1 * (1 + number / 8)
        engine._step(252)
    engine.prompts.append(("p0", 16 * 252, sent_ms, engine.now_ms))
    engine.token_ms = 0.1
    engine.decode(20)

    assert [count.chunks for count in counted(engine)] == [16]


@pytest.mark.parametrize("cached", [None, 0, 600])
def test_tokens_read_from_a_cache_are_not_computed(cached):
    from dataclasses import replace

    engine = PaperEngine()
    engine.decode(20)
    engine.prompt(1000 - (cached or 0))
    engine.decode(20)
    *streams, prompt = engine.timelines()
    usage = replace(prompt.usage, input_tokens=1000, cached_input_tokens=cached)
    timelines = [*streams, replace(prompt, usage=usage)]
    series = reconstruct(timelines)

    (count,) = count_chunks(series, timelines)

    assert count.prompt_tokens == 1000 - (cached or 0)
    assert count.chunks == (2 if cached else 4)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.lab.request import Request, Sampling
from phasemeter.lab.schedule import pack_passes, plan_step


def make_request(tokens):
    return Request(f"p{tokens}", np.zeros(tokens, dtype=np.int32), Sampling(), print, 0)


D1, D2 = make_request(1), make_request(1)
P30, P50, P90 = make_request(30), make_request(50), make_request(90)


def plan(policy, decodes, prompts, *, budget=64, max_model_len=100):
    work = plan_step(
        policy, decodes=decodes, prompts=prompts, token_budget=budget, max_model_len=max_model_len
    )
    return [(request.request_id, tokens) for request, tokens in work]


def test_mixed_takes_whole_prompts_and_all_decodes():
    """30 + 50 fit 100 tokens, 90 more do not; both decodes ride along."""
    assert plan("mixed", [D1, D2], [P30, P50, P90]) == [
        ("p30", 30),
        ("p50", 50),
        ("p1", 1),
        ("p1", 1),
    ]


def test_mixed_does_not_let_a_short_prompt_overtake():
    """90 then 30 exceed 100: the 50 and the 30 wait although one of them would fit."""
    assert plan("mixed", [], [P90, P30, P50]) == [("p90", 90)]


def test_a_prompt_longer_than_the_limit_goes_alone():
    """Nothing can block a queue for ever."""
    assert plan("mixed", [], [P90, P30], max_model_len=80) == [("p90", 90)]


def test_prefill_first_lets_decodes_stand_still():
    """No decode in a step that has prompts, all of them in one that has none."""
    assert plan("prefill-first", [D1, D2], [P30]) == [("p30", 30)]
    assert plan("prefill-first", [D1, D2], []) == [("p1", 1), ("p1", 1)]


def test_chunked_serves_decodes_before_it_cuts_prompts():
    """64 - 2 decodes = 62 tokens: the whole 30, then 32 of the 50, nothing of the 90."""
    assert plan("chunked", [D1, D2], [P30, P50, P90]) == [
        ("p30", 30),
        ("p50", 32),
        ("p1", 1),
        ("p1", 1),
    ]


@pytest.mark.parametrize("policy", ["mixed", "chunked", "prefill-first"])
def test_nothing_to_do_is_an_empty_plan(policy):
    """An idle engine has no step."""
    assert plan(policy, [], []) == []


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 40))
def test_passes_carry_all_tokens_in_order_and_none_is_too_large(counts, max_rows):
    """Cutting a step into passes loses and reorders nothing, and fills all passes but the last."""
    requests = [make_request(count) for count in counts]
    passes = pack_passes([(r, len(r.prompt)) for r in requests], max_rows)

    sizes = [sum(tokens for _, tokens in rows) for rows in passes]
    assert all(size == max_rows for size in sizes[:-1])
    assert 0 < sizes[-1] <= max_rows
    flat = [request for rows in passes for request, tokens in rows for _ in range(tokens)]
    assert flat == [request for request in requests for _ in request.prompt]
    assert all(len({id(r) for r, _ in rows}) == len(rows) for rows in passes)

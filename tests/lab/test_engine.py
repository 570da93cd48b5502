import pytest

from phasemeter.lab.request import Failed

POLICIES = ["mixed", "chunked", "prefill-first"]


def tokens_of(outputs):
    return [output.token for output in outputs]


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_change_when_not_what(make_driver, policy):
    """Prompts over several passes, more requests than slots: tokens are those of a lone run."""
    lone = make_driver()
    expected = []
    for prompt in (1, 5, 500, 70, 33, 130):
        _, outputs = lone.submit(prompt)
        lone.steps()
        expected.append(tokens_of(outputs))

    busy = make_driver(policy=policy, token_budget=50, max_model_len=600)
    together = [busy.submit(prompt)[1] for prompt in (1, 5, 500, 70, 33, 130)]
    busy.steps()

    assert [tokens_of(outputs) for outputs in together] == expected
    assert busy.engine.used_slots == 0


def test_mixed_makes_the_decode_wait_in_the_same_step(make_driver):
    """The step that prefills 100 tokens also brings the running sequence its next one."""
    driver = make_driver(policy="mixed")
    driver.submit(10, max_tokens=3)
    driver.engine.step()
    driver.submit(100, max_tokens=2)

    assert driver.steps() == [(100, 1), (0, 2)]


def test_prefill_first_makes_the_decode_stand_still(make_driver):
    """The same arrivals: the prefill step has no decode token in it."""
    driver = make_driver(policy="prefill-first")
    driver.submit(10, max_tokens=3)
    driver.engine.step()
    driver.submit(100, max_tokens=2)

    assert driver.steps() == [(100, 0), (0, 2), (0, 1)]


def test_chunked_bounds_every_step(make_driver):
    """Budget 41 with one decode leaves 40 prompt tokens a step: 100 = 40 + 40 + 20."""
    driver = make_driver(policy="chunked", token_budget=41)
    driver.submit(10, max_tokens=9)
    driver.engine.step()
    driver.submit(100, max_tokens=2)

    assert driver.steps()[:5] == [(40, 1), (40, 1), (20, 1), (0, 2), (0, 1)]


def test_a_request_waits_for_a_slot_in_order(make_driver):
    """With one slot, the second request is scheduled when the first has ended."""
    driver = make_driver(max_num_seqs=1)
    first, _ = driver.submit(5, max_tokens=2)
    second, _ = driver.submit(6, max_tokens=1)

    assert driver.steps() == [(5, 0), (0, 1), (6, 0)]
    assert second.scheduled_ns > first.last_token_ns


def test_instants_are_in_order_and_prefill_steps_add_up(make_driver):
    """Received, scheduled, first, last; the prompt's 90 tokens are all accounted for."""
    driver = make_driver(policy="chunked", token_budget=40)
    request, _ = driver.submit(90, max_tokens=3)
    driver.steps()

    assert request.received_ns < request.scheduled_ns < request.first_token_ns
    assert request.first_token_ns < request.last_token_ns
    assert [step.tokens for step in request.prefill_steps] == [40, 40, 10]
    assert request.first_token_ns == request.prefill_steps[-1].end_ns
    assert request.kv_pulled_ns is None


def test_a_cancelled_request_frees_its_slot_at_the_next_step(make_driver):
    """The running one is told so, and the waiting one takes its place."""
    driver = make_driver(max_num_seqs=1)
    first, first_outputs = driver.submit(5, max_tokens=100)
    second, _ = driver.submit(6, max_tokens=1)
    driver.engine.step()
    driver.engine.cancel(first)

    truth = driver.engine.step()

    assert first_outputs[-1] == Failed(None)
    assert (truth.prefill_tokens, truth.decode_tokens) == (6, 0)
    assert second.first_token_ns is not None
    assert not driver.engine.has_work
    assert driver.engine.used_slots == 0


def test_a_request_cancelled_in_the_queue_is_never_scheduled(make_driver):
    """It leaves the queue without a token."""
    driver = make_driver(max_num_seqs=1)
    driver.submit(5, max_tokens=2)
    waiting, outputs = driver.submit(6)
    driver.engine.step()
    driver.engine.cancel(waiting)
    driver.steps()

    assert outputs == [Failed(None)]
    assert waiting.scheduled_ns is None


def test_cancelled_in_the_middle_of_a_step_nothing_more_is_delivered(make_driver):
    """A disconnect seen during a prefill's pause drops the token that the step still draws."""
    driver = make_driver()
    request, outputs = driver.submit(200)
    parts = driver.engine.step_parts()
    next(parts)
    driver.engine.cancel(request)
    for _ in parts:
        pass
    driver.engine.step()

    assert outputs == [Failed(None)]


def test_an_idle_engine_has_no_step(make_driver):
    """Nothing to compute is None, not a step of length zero."""
    assert make_driver().engine.step() is None


def test_cache_use_counts_the_tokens_of_running_requests(make_driver):
    """Ten prompt tokens after the prefill; the drawn token is not in the cache yet."""
    driver = make_driver()
    driver.submit(10, max_tokens=2)
    driver.engine.step()
    assert (driver.engine.cached_tokens, driver.engine.used_slots) == (10, 1)

    driver.engine.step()
    assert (driver.engine.cached_tokens, driver.engine.used_slots) == (0, 0)

from dataclasses import replace

import pytest

from phasemeter.lab.config import EngineConfig
from phasemeter.lab.engine import Engine
from phasemeter.lab.request import Failed, RemoteKV, TokenOut


def prefilled(driver, prompt):
    """Run a prefill leg; return what its answer would tell the decode instance."""
    request, _ = driver.submit(prompt, max_tokens=1, holds_kv=True)
    driver.steps()
    return RemoteKV(driver.engine.published.engine_id, request.slot, request.internal_id)


def decode(driver, prompt, remote, **fields):
    request, outputs = driver.submit(prompt, remote=remote, **fields)
    while driver.engine.has_work:
        driver.engine.step()
    return request, outputs


def failure(outputs):
    assert [type(output) for output in outputs] == [Failed]
    return outputs[0].message


def test_a_handed_off_decode_equals_a_whole_run(make_driver):
    """The decode engine recomputes one prompt token and draws the same tokens as one engine."""
    whole = make_driver()
    _, expected = whole.submit(300, max_tokens=8)
    whole.steps()
    remote = prefilled(make_driver(role="prefill"), 300)

    request, outputs = decode(make_driver(role="decode"), 300, remote, max_tokens=8)

    assert [o.token for o in outputs] == [o.token for o in expected]
    assert [step.tokens for step in request.prefill_steps] == [1]
    assert request.scheduled_ns < request.kv_pulled_ns < request.first_token_ns


def test_a_prompt_of_one_token_can_be_handed_off(make_driver):
    """Nothing but the recomputed token remains of it."""
    remote = prefilled(make_driver(role="prefill"), 1)

    _, outputs = decode(make_driver(role="decode"), 1, remote)

    assert len(outputs) == 3


def test_a_slot_is_held_until_it_is_pulled(make_driver):
    """With one slot the next prompt waits, and runs once the decode engine has its copy."""
    prefill = make_driver(role="prefill", max_num_seqs=1)
    remote = prefilled(prefill, 20)
    _, outputs = prefill.submit(30, max_tokens=1, holds_kv=True)
    assert prefill.engine.step() is None
    assert (prefill.engine.cached_tokens, prefill.engine.used_slots) == (20, 1)

    decode(make_driver(role="decode"), 20, remote)

    assert prefill.engine.step().prefill_tokens == 30
    assert len(outputs) == 1


def test_an_expired_lease_fails_the_pull(make_driver):
    """The prefill side takes its slot back; the decode side says so instead of recomputing."""
    prefill = make_driver(role="prefill", lease_s=1.0)
    remote = prefilled(prefill, 20)
    prefill.clock.now_ns += 2 * 10**9
    prefill.engine.step()

    _, outputs = decode(make_driver(role="decode"), 20, remote)

    assert "lease expired" in failure(outputs)
    assert prefill.engine.used_slots == 0
    assert prefill.engine.published.expired_total == 1


def test_a_hand_off_is_good_for_one_pull(make_driver):
    """After the first pull the memory may be reused at any moment, so a second one fails."""
    remote = prefilled(make_driver(role="prefill"), 20)
    driver = make_driver(role="decode")
    decode(driver, 20, remote)

    _, outputs = decode(driver, 20, remote)

    assert "already pulled" in failure(outputs)
    assert driver.engine.used_slots == 0


def test_another_prompt_is_refused(make_driver):
    """Same length, one other token: the cache of another text is never used."""
    remote = prefilled(make_driver(role="prefill"), [1, 2, 3])

    _, outputs = decode(make_driver(role="decode"), [1, 2, 4], remote)

    assert "another prompt" in failure(outputs)


def test_another_model_is_refused(make_driver):
    """Weights of another seed would read the cache as noise."""
    remote = prefilled(make_driver(role="prefill", seed=1), 20)

    _, outputs = decode(make_driver(role="decode", seed=2), 20, remote)

    assert "another model" in failure(outputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine_id": "phasemeter-lab-000000000000"}, "no prefill instance"),
        ({"engine_id": "../etc/passwd"}, "no prefill instance"),
        ({"slot": 99}, "slot 99"),
        ({"slot": -1}, "slot -1"),
        ({"request_id": "someone else"}, "not held"),
    ],
)
def test_a_wrong_reference_is_refused(make_driver, change, message):
    """Nothing outside the named engine's table is ever read."""
    remote = prefilled(make_driver(role="prefill"), 20)

    _, outputs = decode(make_driver(role="decode"), 20, replace(remote, **change))

    assert message in failure(outputs)


def test_memory_reused_during_the_copy_is_noticed(make_driver, monkeypatch):
    """The owner's lease ends between check and copy: the pull fails after the copy."""
    prefill = make_driver(role="prefill", lease_s=1.0)
    remote = prefilled(prefill, 20)
    driver = make_driver(role="decode")
    copy_slot = driver.engine._cache.copy_slot

    def copy_and_expire(*arguments):
        yield from copy_slot(*arguments)
        prefill.clock.now_ns += 2 * 10**9
        prefill.engine.step()

    monkeypatch.setattr(driver.engine._cache, "copy_slot", copy_and_expire)
    _, outputs = decode(driver, 20, remote)

    assert "lease expired" in failure(outputs)


def test_a_failed_pull_does_not_hinder_the_next(make_driver):
    """The queue moves on, and the slot is free again."""
    remote = prefilled(make_driver(role="prefill"), 20)
    driver = make_driver(role="decode", max_num_seqs=1)
    _, bad = driver.submit(20, remote=replace(remote, request_id="x"))
    _, good = driver.submit(20, remote=remote)
    driver.steps()

    assert failure(bad)
    assert all(isinstance(output, TokenOut) for output in good)


def test_a_cache_that_does_not_fit_shared_memory_is_refused():
    """Said before the first write, which would end the process."""
    config = EngineConfig(role="prefill", max_num_seqs=256, max_model_len=32768)

    with pytest.raises(ValueError, match="lower max_num_seqs or max_model_len"):
        Engine(config)

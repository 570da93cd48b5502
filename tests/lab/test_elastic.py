"""Turns of an elastic instance: the rules alone, then an engine, then a process under a shifting load."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.lab.config import EngineConfig
from phasemeter.lab.elastic import LEAST_STEPS, MOST_STEPS, ElasticRole, next_turn
from phasemeter.lab.launch import start_engines
from phasemeter.lab.request import RemoteKV

SLOTS = 16


@pytest.mark.parametrize(
    ("turn", "steps", "prompts", "streams", "expected"),
    [
        ("prefill", 3, 0, 0, "prefill"),
        ("decode", 3, 0, 0, "decode"),
        ("decode", 1, 1, 0, "prefill"),
        ("prefill", 1, 0, 1, "decode"),
        # Both wait. Decode has slack with a quarter of the slots, and only after its least turn.
        ("decode", LEAST_STEPS, 1, 4, "prefill"),
        ("decode", LEAST_STEPS - 1, 1, 4, "decode"),
        ("decode", LEAST_STEPS, 1, 5, "decode"),
        # A prefill turn ends with half of the slots decoding, or after its greatest length.
        ("prefill", 1, 5, 7, "prefill"),
        ("prefill", 1, 5, 8, "decode"),
        ("prefill", MOST_STEPS, 5, 1, "decode"),
    ],
)
def test_the_rules(turn, steps, prompts, streams, expected):
    """Each rule of the module's text, at its edge."""
    assert next_turn(turn, steps, prompts=prompts, streams=streams, slots=SLOTS) == expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 16)), max_size=200))
def test_no_turn_flickers_and_no_stream_stands_still_for_ever(loads):
    """While both wait, a decode turn has its least length and a prefill turn at most its greatest."""
    role = ElasticRole(SLOTS)
    length, last, forced = 0, role.turn, True
    for prompts, streams in loads:
        turn = role.take(prompts=prompts, streams=streams)
        both = prompts > 0 and streams > 0
        if turn != last:
            if last == "decode" and both and not forced:
                assert length >= LEAST_STEPS
            length, last, forced = 0, turn, not both
        forced = forced or not both
        length += bool(prompts or streams)
        if turn == "prefill" and both and not forced:
            assert length <= MOST_STEPS
        if prompts and not streams:
            assert turn == "prefill"
        if streams and not prompts:
            assert turn == "decode"


def test_a_step_computes_one_phase_only(make_driver):
    """A prompt that comes during decoding is not computed beside it, and both get done."""
    driver = make_driver(role="elastic", max_num_seqs=8)
    driver.submit(10, max_tokens=30)
    for turn in ("prefill", "decode"):
        assert driver.engine.step().role == turn
    driver.submit(100, max_tokens=4)

    steps = driver.steps()

    assert all(prefill == 0 or decode == 0 for prefill, decode in steps)
    assert (100, 0) in steps
    # One stream of eight slots is slack, so the prompt waits for the least turn and no longer.
    assert steps.index((100, 0)) == LEAST_STEPS - 1
    assert driver.engine.elastic.switches == 4  # decode at first, then to prefill and back, twice


def leg(driver, prompt):
    request, _ = driver.submit(prompt, max_tokens=1, holds_kv=True)
    while not request.generated:
        driver.engine.step()
    return RemoteKV(driver.engine.published.engine_id, request.slot, request.internal_id)


@pytest.mark.parametrize("policy", ["mixed", "chunked"])
def test_tokens_equal_those_of_role_both_whichever_instance_decodes(make_driver, policy):
    """The KV cache pulled from the instance itself, from another one, and no hand-off at all."""
    settings = {"policy": policy, "token_budget": 50}
    whole = make_driver(**settings)
    _, expected = whole.submit(300, max_tokens=8)
    whole.steps()
    one, other = make_driver(role="elastic", **settings), make_driver(role="elastic", **settings)

    for prefiller, decoder in ((one, one), (one, other)):
        remote = leg(prefiller, 300)
        request, outputs = decoder.submit(300, max_tokens=8, remote=remote)
        decoder.steps()
        assert [o.token for o in outputs] == [o.token for o in expected]
        assert request.kv_pulled_ns is not None
        prefiller.engine.step()
        assert prefiller.engine.used_slots == decoder.engine.used_slots == 0
    _, outputs = one.submit(300, max_tokens=8)
    one.steps()
    assert [o.token for o in outputs] == [o.token for o in expected]


def test_two_instances_full_of_hand_offs_for_each_other_go_on(make_driver):
    """Hand-offs hold at most half of the slots, so that the other's pulls find room."""
    pools = [make_driver(role="elastic", max_num_seqs=4) for _ in range(2)]
    legs = []
    for driver in pools:
        legs.append([driver.submit(20, max_tokens=1, holds_kv=True)[0] for _ in range(4)])
        driver.engine.step()
        driver.engine.step()
        assert driver.engine.published.held_slots == 2

    for driver, theirs in zip(pools, reversed(legs), strict=True):
        other = pools[1 - pools.index(driver)]
        for request in theirs:
            while not request.generated:
                other.engine.step()
            remote = RemoteKV(other.engine.published.engine_id, request.slot, request.internal_id)
            _, outputs = driver.submit(20, max_tokens=3, remote=remote)
            while len(outputs) < 3:
                driver.engine.step()
            assert outputs[-1].finish_reason == "length"


def test_an_instance_of_one_slot_is_refused():
    """The slot held for the hand-off would be the one that the pull needs."""
    with pytest.raises(ValueError, match=r"^max_num_seqs must be 2 or more for role elastic"):
        EngineConfig(role="elastic", max_num_seqs=1)


ASK = {"do_remote_decode": True, "do_remote_prefill": False}
GREEDY = {"temperature": 0, "ignore_eos": True, "return_token_ids": True}


def answer_over(http_call, prefiller, decoder, prompt, tokens):
    """Both legs of one request, as a client carries them."""
    first = http_call.complete(
        prefiller, prompt=prompt, max_tokens=1, temperature=0, kv_transfer_params=ASK
    )
    assert first.status == 200, first.body
    answer = http_call.complete(
        decoder,
        prompt=prompt,
        max_tokens=tokens,
        kv_transfer_params=first.json["kv_transfer_params"],
        **GREEDY,
    )
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]["token_ids"]


@pytest.mark.lab
def test_the_role_follows_the_load_and_nobody_notices(http_call, served):
    """Two processes are each other's prefill and decode instance: first long prompts, then long
    answers. Steps and counters show which turns were taken; tokens are those of role `both`."""
    config = EngineConfig(model_size="tiny", max_model_len=512, max_num_seqs=4, role="elastic")
    prompts = [[(7 * k + n) % 256 for k in range(400)] for n in range(24)]
    shorts = [[(11 * k + n) % 256 for k in range(8)] for n in range(8)]

    def both(prompt, tokens):
        answer = http_call.complete(served, prompt=prompt, max_tokens=tokens, **GREEDY)
        return answer.json["choices"][0]["token_ids"]

    with start_engines([config, config]) as pool:

        def load(wanted, tokens):
            turn = iter(range(len(wanted)))
            lock = threading.Lock()

            def one(prompt):
                with lock:
                    number = next(turn)
                # Every other request decodes where it was prefilled.
                return answer_over(
                    http_call, pool[number % 2], pool[number // 2 % 2], prompt, tokens
                )

            with ThreadPoolExecutor(4) as users:
                return list(users.map(one, wanted))

        def computed():
            """Tokens computed in each role so far, over both."""
            tokens = {"prefill": 0, "decode": 0}
            for engine in pool:
                for step in http_call(engine, "GET", "/steps").lines:
                    # A pulled prompt's last token is computed again, with the streams.
                    if step["role"] == "decode":
                        assert step["prefill_tokens"] <= config.max_num_seqs
                    tokens[step["role"]] += step["prefill_tokens"] + step["decode_tokens"]
            return tokens

        answers = load(prompts, 2)
        heavy_prompts = computed()
        more = load(shorts, 300)
        heavy_answers = {role: n - heavy_prompts[role] for role, n in computed().items()}
        page = http_call(pool[0], "GET", "/metrics").body.decode()
        truth = http_call(pool[0], "GET", "/truth").lines

    assert heavy_prompts["prefill"] > 50 * heavy_prompts["decode"]
    assert heavy_answers["decode"] > 20 * heavy_answers["prefill"]
    switches = re.search(r"^phasemeter_lab_role_switches_total\{.*\} (\S+)", page, re.M)
    assert float(switches[1]) >= 3
    roles = re.findall(r'^phasemeter_lab_role\{role="(\w+)"\} (\S+)', page, re.M)
    assert sorted(float(value) for _, value in roles) == [0.0, 1.0]
    assert {line["outcome"] for line in truth} == {"ok"}
    assert {line["role"] for line in truth} == {"prefill", "decode"}
    assert answers == [both(prompt, 2) for prompt in prompts]
    assert more == [both(prompt, 300) for prompt in shorts]

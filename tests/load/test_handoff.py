from phasemeter.load.handoff import bootstrap_body, decode_body, prefill_body
from phasemeter.load.target import RequestStyle

BODY = RequestStyle("completions", "m", prompt_ids=True).body(4, 9, "salt")


def test_the_prefill_leg_asks_for_one_token_and_a_hand_off():
    leg = prefill_body(BODY)

    assert (leg["stream"], leg["max_tokens"]) == (False, 1)
    assert "min_tokens" not in leg
    assert "stream_options" not in leg
    assert leg["prompt"] == BODY["prompt"]
    assert leg["kv_transfer_params"]["do_remote_decode"] is True  # type: ignore[index]


def test_the_decode_leg_is_the_original_request_with_the_parameters_handed_over():
    params = {"do_remote_prefill": True, "remote_block_ids": [3]}

    assert decode_body(BODY, {"kv_transfer_params": params}) == {
        **BODY,
        "kv_transfer_params": params,
    }


def test_an_answer_without_parameters_hands_nothing_over():
    assert decode_body(BODY, {"kv_transfer_params": None}) is None
    assert decode_body(BODY, {}) is None
    assert decode_body(BODY, None) is None


def test_sglangs_legs_meet_in_a_room_that_follows_from_the_request():
    one, again, other = (
        bootstrap_body(BODY, host="10.0.0.7", port=8998, request_id=name) for name in "aab"
    )

    assert one == again
    assert one.keys() - BODY.keys() == {"bootstrap_host", "bootstrap_port", "bootstrap_room"}
    assert 0 <= one["bootstrap_room"] < 2**63  # type: ignore[operator]
    assert one["bootstrap_room"] != other["bootstrap_room"]
    assert bootstrap_body(BODY, host="::1", port=1, request_id="a")["bootstrap_host"] == "[::1]"

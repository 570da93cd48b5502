from phasemeter.load.handoff import decode_body, prefill_body
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

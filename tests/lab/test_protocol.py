import json

import pytest

from phasemeter.lab.asgi import ApiError
from phasemeter.lab.config import EngineConfig
from phasemeter.lab.protocol import parse_call
from phasemeter.lab.request import RemoteKV, Sampling
from phasemeter.lab.tokenizer import encode_chat, encode_text

CONFIG = EngineConfig(max_model_len=100)
HOLD = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None}
PULL = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_engine_id": "e",
    "remote_block_ids": [2],
    "remote_request_id": "q",
}


def parse(config=CONFIG, *, chat=False, **fields):
    body = {"model": "lab"} | ({} if chat else {"prompt": "p"}) | fields
    return parse_call(json.dumps(body).encode(), chat=chat, config=config)


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("ab", encode_text("ab")),
        (["ab"], encode_text("ab")),
        ([5, 6, 257], [5, 6, 257]),
        ([[5, 6]], [5, 6]),
    ],
)
def test_prompt_forms(prompt, ids):
    """Text or token ids, each also alone in a list."""
    assert parse(prompt=prompt).prompt.tolist() == ids


def test_chat_contents_may_be_parts():
    """Text parts are joined."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    call = parse(chat=True, messages=[{"role": "user", "content": parts}])

    assert call.prompt.tolist() == encode_chat([("user", "ab")])


def test_defaults_are_those_of_openai_servers():
    """Sixteen tokens at temperature 1, not streamed; null means not given."""
    call = parse(temperature=None, max_tokens=None, stop=None, n=None, kv_transfer_params=None)

    assert call.sampling == Sampling(16, 0, ignore_eos=False, temperature=1.0, seed=0)
    assert not any((call.stream, call.include_usage, call.holds_kv))


def test_unknown_fields_are_ignored():
    """Clients send many."""
    assert parse(user="u", top_k=3, stream=True).stream


def test_max_completion_tokens_is_the_same_limit():
    """The newer name of the chat endpoint."""
    assert parse(max_completion_tokens=7).sampling.max_tokens == 7


@pytest.mark.parametrize(
    ("fields", "param", "status"),
    [
        ({"model": "other"}, "model", 404),
        ({"model": None}, "model", 400),
        ({"prompt": []}, "prompt", 400),
        ({"prompt": [258]}, "prompt", 400),
        ({"prompt": [True]}, "prompt", 400),
        ({"prompt": ["a", "b"]}, "prompt", 400),
        ({"prompt": None}, "prompt", 400),
        ({"n": 2}, "n", 400),
        ({"stop": ["x"]}, "stop", 400),
        ({"max_tokens": 0}, "max_tokens", 400),
        ({"max_tokens": 1.5}, "max_tokens", 400),
        ({"max_tokens": 99}, "max_tokens", 400),
        ({"min_tokens": 17}, "min_tokens", 400),
        ({"temperature": -1}, "temperature", 400),
        ({"temperature": "hot"}, "temperature", 400),
        ({"seed": "x"}, "seed", 400),
        ({"stream": 1}, "stream", 400),
        ({"stream_options": {"include_usage": True}}, "stream_options", 400),
        ({"stream": True, "stream_options": 3}, "stream_options", 400),
        ({"kv_transfer_params": HOLD}, "kv_transfer_params", 400),
        ({"kv_transfer_params": PULL}, "kv_transfer_params", 400),
    ],
)
def test_a_bad_field_is_named(fields, param, status):
    """The answer tells the field, in the message and as `param`."""
    with pytest.raises(ApiError) as error:
        parse(**fields)

    assert (error.value.param, error.value.status) == (param, status)
    assert param in error.value.message or "role" in error.value.message


@pytest.mark.parametrize("messages", [None, [], "hi", [{"role": "user"}], [{"content": "x"}], [3]])
def test_bad_messages_are_refused(messages):
    """Role and content are needed."""
    with pytest.raises(ApiError) as error:
        parse(chat=True, messages=messages)

    assert error.value.param == "messages"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(body):
    """Status 400, and no traceback."""
    with pytest.raises(ApiError, match="JSON") as error:
        parse_call(body, chat=False, config=CONFIG)

    assert error.value.status == 400


def test_a_prompt_may_fill_the_model_length_exactly():
    """84 + 16 = 100 is the last that fits."""
    assert len(parse(prompt=[1] * 84).prompt) == 84
    with pytest.raises(ApiError, match="max_model_len"):
        parse(prompt=[1] * 85)


def test_a_prefill_instance_serves_prefill_legs_only():
    """One token, not streamed, with do_remote_decode."""
    config = EngineConfig(role="prefill")
    assert parse(config, max_tokens=1, kv_transfer_params=HOLD).holds_kv
    for wrong in (
        {"max_tokens": 1},
        {"max_tokens": 2, "kv_transfer_params": HOLD},
        {"max_tokens": 1, "kv_transfer_params": HOLD, "stream": True},
        {"max_tokens": 1, "kv_transfer_params": PULL},
    ):
        with pytest.raises(ApiError):
            parse(config, **wrong)


def test_a_decode_instance_serves_decode_legs_only():
    """The references of a prefill leg must be complete."""
    config = EngineConfig(role="decode")
    assert parse(config, kv_transfer_params=PULL).remote == RemoteKV("e", 2, "q")
    for wrong in (None, HOLD, PULL | {"remote_block_ids": []}, PULL | {"remote_engine_id": None}):
        with pytest.raises(ApiError) as error:
            parse(config, kv_transfer_params=wrong)
        assert error.value.param == "kv_transfer_params"

"""Request bodies of the two OpenAI endpoints, checked and turned into one kind of call.

Unknown fields are ignored, as servers do; fields that would change the output and are not served
here (`n` above 1, `stop`) are refused.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from phasemeter.lab.asgi import ApiError
from phasemeter.lab.request import RemoteKV, Sampling
from phasemeter.lab.shape import VOCAB
from phasemeter.lab.tokenizer import encode_chat, encode_text

if TYPE_CHECKING:
    from phasemeter.lab.config import EngineConfig, Role
    from phasemeter.lab.weights import Ints

Fields = dict[str, object]

_ROLE_NEEDS: dict[Role, str] = {
    "both": "neither kv_transfer_params.do_remote_decode nor do_remote_prefill",
    "prefill": "kv_transfer_params.do_remote_decode = true",
    "decode": "kv_transfer_params.do_remote_prefill = true",
    "elastic": "at most one of kv_transfer_params.do_remote_decode and do_remote_prefill",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A checked request for generation."""

    chat: bool
    prompt: Ints
    sampling: Sampling
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    holds_kv: bool
    remote: RemoteKV | None


def parse_call(body: bytes, *, chat: bool, config: EngineConfig) -> Call:
    """Check a request body.

    Raises:
        ApiError: The body cannot be served as it is; the message names the field.
    """
    fields = _parse_object(body)
    _check_model(fields, config.served_model_name)
    _check_not_served(fields)
    stream = _flag(fields, "stream")
    options = _object(fields, "stream_options")
    if options and not stream:
        msg = "stream_options needs stream = true"
        raise ApiError(msg, param="stream_options")
    holds_kv, remote = _hand_off(fields, config.role)
    if holds_kv and stream:
        msg = "a prefill leg must have stream = false: its own token is not the answer"
        raise ApiError(msg, param="stream")
    prompt = _chat_prompt(fields) if chat else _completion_prompt(fields)
    sampling = _sampling(fields)
    if holds_kv and sampling.max_tokens != 1:
        msg = f"a prefill leg must have max_tokens = 1, got {sampling.max_tokens}"
        raise ApiError(msg, param="max_tokens")
    _check_length(len(prompt), sampling.max_tokens, config.max_model_len)
    return Call(
        chat=chat,
        prompt=np.array(prompt, dtype=np.int32),
        sampling=sampling,
        stream=stream,
        include_usage=_flag(options, "include_usage"),
        continuous_usage=_flag(options, "continuous_usage_stats"),
        return_token_ids=_flag(fields, "return_token_ids"),
        holds_kv=holds_kv,
        remote=remote,
    )


def _parse_object(body: bytes) -> Fields:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        msg = f"the body is not JSON: {error}"
        raise ApiError(msg) from None
    if not isinstance(value, dict):
        msg = "the body must be a JSON object"
        raise ApiError(msg)
    return cast("Fields", value)


def _check_model(fields: Fields, served: str) -> None:
    model = fields.get("model")
    if not isinstance(model, str):
        msg = f"model must be the served model's name, {served!r}"
        raise ApiError(msg, param="model")
    if model != served:
        msg = f"the model {model!r} does not exist; this server has {served!r}"
        raise ApiError(msg, status=404, param="model", code="model_not_found")


def _check_not_served(fields: Fields) -> None:
    if fields.get("n") not in (None, 1):
        msg = f"n must be 1, got {fields['n']!r}"
        raise ApiError(msg, param="n")
    if fields.get("stop"):
        msg = "stop is not served here; bound the output with max_tokens"
        raise ApiError(msg, param="stop")


def _check_length(prompt_tokens: int, max_tokens: int, max_model_len: int) -> None:
    if prompt_tokens + max_tokens > max_model_len:
        msg = (
            f"prompt ({prompt_tokens} tokens) and max_tokens ({max_tokens}) must fit "
            f"max_model_len ({max_model_len})"
        )
        raise ApiError(msg, param="max_tokens", code="context_length_exceeded")


def _sampling(fields: Fields) -> Sampling:
    limit = "max_completion_tokens" if "max_completion_tokens" in fields else "max_tokens"
    max_tokens = _integer(fields, limit, 16, low=1)
    min_tokens = _integer(fields, "min_tokens", 0, low=0)
    if min_tokens > max_tokens:
        msg = f"min_tokens must be at most {limit} ({max_tokens}), got {min_tokens}"
        raise ApiError(msg, param="min_tokens")
    return Sampling(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        ignore_eos=_flag(fields, "ignore_eos"),
        temperature=_temperature(fields),
        seed=_integer(fields, "seed", 0, low=0),
    )


def _temperature(fields: Fields) -> float:
    value = fields.get("temperature")
    if value is None:
        return 1.0
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(cast("float", value)) or cast("float", value) < 0:
        msg = f"temperature must be a number >= 0, got {value!r}"
        raise ApiError(msg, param="temperature")
    return float(cast("float", value))


def _hand_off(fields: Fields, role: Role) -> tuple[bool, RemoteKV | None]:
    """Return whether to hold the KV cache, and from where to pull it."""
    params = _object(fields, "kv_transfer_params")
    holds_kv = _flag(params, "do_remote_decode")
    pulls = _flag(params, "do_remote_prefill")
    served = (role == "prefill", role == "decode")
    if (holds_kv and pulls) if role == "elastic" else (holds_kv, pulls) != served:
        msg = f"this instance has the role {role!r} and serves requests with {_ROLE_NEEDS[role]}"
        raise ApiError(msg, param="kv_transfer_params")
    return holds_kv, _remote(params) if pulls else None


def _remote(params: Fields) -> RemoteKV:
    engine_id, blocks = params.get("remote_engine_id"), params.get("remote_block_ids")
    request_id = params.get("remote_request_id")
    if (
        isinstance(engine_id, str)
        and isinstance(request_id, str)
        and isinstance(blocks, list)
        and len(blocks) == 1
        and type(blocks[0]) is int
    ):
        return RemoteKV(engine_id, blocks[0], request_id)
    msg = "remote_engine_id, remote_block_ids and remote_request_id must be those of a prefill leg"
    raise ApiError(msg, param="kv_transfer_params")


def _completion_prompt(fields: Fields) -> list[int]:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return encode_text(prompt)
    if isinstance(prompt, list) and prompt:
        # Booleans are integers to Python and not token ids.
        if all(type(token) is int and 0 <= token < VOCAB for token in prompt):
            return prompt
        msg = f"prompt token ids must be integers from 0 to {VOCAB - 1}"
        raise ApiError(msg, param="prompt")
    msg = "prompt must be a string, a non-empty list of token ids, or a list with one of them"
    raise ApiError(msg, param="prompt")


def _chat_prompt(fields: Fields) -> list[int]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        msg = "messages must be a non-empty list of objects with role and content"
        raise ApiError(msg, param="messages")
    return encode_chat([_message(message) for message in messages])


def _message(message: object) -> tuple[str, str]:
    if isinstance(message, dict):
        role, content = message.get("role"), message.get("content")
        if isinstance(content, list):
            content = _joined_parts(content)
        if isinstance(role, str) and isinstance(content, str):
            return role, content
    msg = "a message must have a role and a content that is a string or a list of text parts"
    raise ApiError(msg, param="messages")


def _joined_parts(parts: list[object]) -> str | None:
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    strings = [text for text in texts if isinstance(text, str)]
    return "".join(strings) if len(strings) == len(parts) else None


def _object(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        msg = f"{name} must be an object, got {value!r}"
        raise ApiError(msg, param=name)
    return cast("Fields", value)


def _flag(fields: Fields, name: str) -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        msg = f"{name} must be true or false, got {value!r}"
        raise ApiError(msg, param=name)
    return value


def _integer(fields: Fields, name: str, default: int, *, low: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if type(value) is not int or value < low:
        msg = f"{name} must be an integer >= {low}, got {value!r}"
        raise ApiError(msg, param=name)
    return value

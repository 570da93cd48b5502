"""The two legs of separated serving, with the client in the place of the proxy.

`vllm`, as vLLM's NixlConnector has it and the lab engine too: the prompt goes to a prefill instance for
one token, the `kv_transfer_params` of the answer go into the original request, and the stream comes from
a decode instance. One leg follows the other.

`sglang`, as SGLang's routers have it (`sglang_router/mini_lb.py`): the same request goes to both at the
same time, with the place and a number of the rendezvous at which the two instances find each other; the
stream comes from the decode instance and the prefill instance's answer is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

Handoff = Literal["vllm", "sglang"]
HANDOFFS: tuple[Handoff, ...] = ("vllm", "sglang")

DEFAULT_BOOTSTRAP_PORT = 8998
"""SGLang's `--disaggregation-bootstrap-port` where nothing else is said."""

_NOT_IN_PREFILL = ("stream_options", "min_tokens", "min_completion_tokens")


def prefill_body(body: Mapping[str, object]) -> dict[str, object]:
    """Return the prefill leg's body for a streamed request's body, in vLLM's protocol."""
    leg = {name: value for name, value in body.items() if name not in _NOT_IN_PREFILL}
    leg |= {
        "stream": False,
        "max_tokens": 1,
        "kv_transfer_params": {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_host": None,
            "remote_port": None,
        },
    }
    return leg


def decode_body(body: Mapping[str, object], prefill_answer: object) -> dict[str, object] | None:
    """Return the decode leg's body in vLLM's protocol, or None where nothing is handed over."""
    if not isinstance(prefill_answer, dict):
        return None
    params = prefill_answer.get("kv_transfer_params")
    if not isinstance(params, dict):
        return None
    return {**body, "kv_transfer_params": params}


def bootstrap_body(
    body: Mapping[str, object], *, host: str, port: int, request_id: str
) -> dict[str, object]:
    """Return the body of both legs in SGLang's protocol.

    Args:
        body: The request.
        host: Host name or address of the prefill instance.
        port: Its bootstrap port.
        request_id: Unique to the request; the room's number, of 63 bits, follows from it.
    """
    digest = blake2b(request_id.encode(), digest_size=8).digest()
    return {
        **body,
        "bootstrap_host": f"[{host}]" if ":" in host else host,
        "bootstrap_port": port,
        "bootstrap_room": int.from_bytes(digest, "big") >> 1,
    }

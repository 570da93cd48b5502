"""The two legs of separated serving, as vLLM's NixlConnector has them and the lab engine too.

The client sends the prompt to a prefill instance for one token, takes `kv_transfer_params` from the
answer, puts them into the original request and streams from a decode instance.
"""

from __future__ import annotations

from collections.abc import Mapping

_NOT_IN_PREFILL = ("stream_options", "min_tokens", "min_completion_tokens")


def prefill_body(body: Mapping[str, object]) -> dict[str, object]:
    """Return the prefill leg's body for a streamed request's body."""
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
    """Return the decode leg's body, or None where the prefill answer hands nothing over."""
    if not isinstance(prefill_answer, dict):
        return None
    params = prefill_answer.get("kv_transfer_params")
    if not isinstance(params, dict):
        return None
    return {**body, "kv_transfer_params": params}

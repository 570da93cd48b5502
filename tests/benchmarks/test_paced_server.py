"""The server of the cost benchmark: as many tokens as are asked for, and gone with its user."""

import json

import httpx2
import pytest

from benchmarks.server_process import piped_server


def test_each_request_gets_as_many_tokens_as_it_asks_for():
    """One connection, two lengths: the role, the tokens, the finish, the usage and the end mark."""
    with piped_server("benchmarks.paced_server", "0.001") as (port, process):
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
            answers = [
                client.post("/v1/chat/completions", json={"max_tokens": tokens}).text
                for tokens in (3, 5)
            ]
        assert process.poll() is None
    assert process.poll() is not None

    events = [answer.removesuffix("\n\n").split("\n\n") for answer in answers]
    assert [len(one) for one in events] == [3 + 4, 5 + 4]
    assert [one[-1] for one in events] == ["data: [DONE]"] * 2
    texts = [json.loads(one[6:])["choices"][0]["delta"]["content"] for one in events[1][1:6]]
    assert len(set(texts)) == 5


def test_a_server_that_does_not_start_is_told():
    """Not waited for."""
    with (
        pytest.raises(OSError, match=r"benchmarks\.paced_server ended before it said its port"),
        piped_server("benchmarks.paced_server", "no number"),
    ):
        pass

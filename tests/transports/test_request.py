"""What is taken from a request, and what is not."""

import httpx2
import pytest

from phasemeter.transports.request import describe, dialect_of, new_request_id, provider_of


def test_model_and_stream_are_all_that_is_taken_from_the_body():
    """The prompt is in no field."""
    request = httpx2.Request(
        "POST",
        "https://api.openai.com/v1/chat/completions?x=1",
        json={"model": "m", "stream": True, "messages": [{"content": "secret"}]},
    )
    info = describe(request, dialect_of(request), started_ns=7, tags={"a": "b"})

    assert (info.model, info.streamed, info.operation, info.provider) == (
        "m",
        True,
        "chat",
        "openai",
    )
    assert (info.server_address, info.server_port, info.started_ns) == ("api.openai.com", 443, 7)
    assert info.tags == {"a": "b"}
    assert "secret" not in repr(info)


@pytest.mark.parametrize(
    ("path", "model", "streamed"),
    [
        ("/v1beta/models/demo-g:streamGenerateContent?alt=sse", "demo-g", True),
        ("/v1beta/models/demo-g:generateContent", "demo-g", False),
        ("/api/chat", None, True),
        ("/generate_stream", None, True),
        ("/v1/messages", None, False),
    ],
)
def test_model_and_stream_may_stand_in_the_path(path, model, streamed):
    """Some endpoints stream unasked."""
    request = httpx2.Request("POST", "http://h" + path, json={"contents": []})
    info = describe(request, dialect_of(request), started_ns=0, tags={})

    assert (info.model, info.streamed) == (model, streamed)


@pytest.mark.parametrize("content", [b"", b"not json", b"[1]", b'{"model": 5, "stream": "yes"}'])
def test_a_body_that_tells_nothing_is_no_fault(content):
    """Model unknown, not streamed."""
    request = httpx2.Request("POST", "http://h:81/v1/completions", content=content)
    info = describe(request, dialect_of(request), started_ns=0, tags={})

    assert (info.model, info.streamed, info.server_port) == (None, False, 81)


def test_a_streamed_body_is_not_read():
    """It could be read only once."""
    request = httpx2.Request("POST", "http://h/v1/completions", content=iter([b"{}"]))

    assert describe(request, dialect_of(request), started_ns=0, tags={}).model is None
    assert b"".join(request.stream) == b"{}"


@pytest.mark.parametrize(("method", "path"), [("GET", "/chat/completions"), ("POST", "/v1/models")])
def test_other_requests_have_no_dialect(method, path):
    """Only a POST to a known path is timed."""
    assert dialect_of(httpx2.Request(method, "http://h" + path)) is None


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("mine.openai.azure.com", "azure.ai.openai"),
        ("api.groq.com", "groq"),
        ("us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("127.0.0.1", "openai"),
    ],
)
def test_the_provider_is_told_by_the_host_else_by_the_dialect(host, provider):
    """Names of the conventions."""
    assert provider_of(host, "openai.chat") == provider


def test_request_ids_do_not_repeat():
    """Not within a process."""
    assert len({new_request_id() for _ in range(1000)}) == 1000

"""What is taken from a request, and what is not."""

import os
import subprocess
import sys

import httpx
import httpx2
import pytest

from phasemeter.core import errors
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
    """Not within a process, nor between processes that an application seeds alike."""
    told = "import random; random.seed(1)\nfrom phasemeter.transports import request\n"
    told += "print(request.new_request_id().partition('-')[2])"
    command = [sys.executable, "-c", told]
    others = [subprocess.check_output(command, timeout=60) for _ in range(2)]

    assert len({new_request_id() for _ in range(1000)}) == 1000
    assert others[0] != others[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_request_ids_of_a_fork_are_its_own():
    """A pre-forking server loads the application before it forks."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_request_id().encode())
        os._exit(0)
    ours = new_request_id()
    os.waitpid(child, 0)

    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert theirs != ours
    assert theirs.startswith(f"{child:x}-")


MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "openai.completions"),
        ({"phasemeter": {"dialect": "openai.chat"}}, "openai.chat"),
        ({"phasemeter": {"dialect": None}}, None),
    ],
)
@pytest.mark.parametrize("family", [httpx, httpx2])
def test_what_the_user_says_goes_before_path_and_body(family, options, name):
    """None means: not to be timed."""
    request = family.Request("POST", "http://h/v1/completions", json={}, extensions=options)

    assert (None if (found := dialect_of(request)) is None else found.name) == name


def test_a_dialect_may_be_said_of_any_method_and_path():
    extensions = {"phasemeter": {"dialect": "gemini.generate"}}

    assert dialect_of(httpx2.Request("GET", "http://h/x", extensions=extensions))


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            {"dialect": "openai.chatt"},
            "dialect: 'openai.chatt' is not known; accepted: openai.chat, openai.completions, "
            "openai.responses, anthropic.messages, ollama.chat, gemini.generate, tgi.generate, "
            "llamacpp.completion",
        ),
        ("openai.chat", 'str is not accepted; accepted: {"dialect": name or None}'),
        ({"dialekt": "openai.chat"}, 'dict is not accepted; accepted: {"dialect": name or None}'),
    ],
)
def test_what_is_not_accepted_is_one_line(said, line, caplog, monkeypatch):
    """Path and body tell instead: a request is never failed for it."""
    monkeypatch.setattr(errors, "_warned", set())
    for _ in range(2):
        request = httpx2.Request(
            "POST", "http://h/completions", json={}, extensions={"phasemeter": said}
        )
        assert dialect_of(request).name == "openai.completions"

    assert [record.getMessage() for record in caplog.records] == [
        f"a request's extensions['phasemeter']: {line}"
    ]


STREAMED = {"model": "m", "stream": True, "messages": MESSAGES}


@pytest.mark.parametrize(
    ("body", "headers", "name"),
    [
        (STREAMED, {}, "openai.chat"),
        (STREAMED, {"anthropic-version": "2023-06-01"}, "anthropic.messages"),
        (
            {"anthropic_version": "v", "stream": True, "messages": MESSAGES},
            {},
            "anthropic.messages",
        ),
        ({**STREAMED, "stream": False}, {}, None),
        ({**STREAMED, "messages": []}, {}, None),
        ({**STREAMED, "messages": [{"text": "hi"}]}, {}, None),
        ({**STREAMED, "messages": ["hi"]}, {}, None),
        ({**STREAMED, "model": 1}, {}, None),
        ({"stream": True, "messages": MESSAGES}, {}, None),
        ([STREAMED], {}, None),
        (STREAMED, {"content-type": "text/plain"}, None),
    ],
)
def test_at_a_path_of_a_gateways_own_the_body_tells(body, headers, name):
    """Only where it asks a model to stream the answer to messages."""
    request = httpx2.Request("POST", "http://h/serving/m/invocations", json=body, headers=headers)

    assert (None if (found := dialect_of(request)) is None else found.name) == name


def test_a_streamed_body_is_not_read_for_its_dialect():
    content = iter([b"{}"])
    request = httpx2.Request(
        "POST", "http://h/x", content=content, headers={"content-type": "application/json"}
    )

    assert dialect_of(request) is None
    assert list(content) == [b"{}"]

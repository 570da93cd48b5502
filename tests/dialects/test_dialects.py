"""Finding the dialect by its name or by the path of a URL, and what a request asks for."""

import re
from pathlib import Path

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.dialects import BUILTIN, asks_for_stream, by_name, for_path, requested_model

GEMINI = "/v1beta/models/demo-g"
CLAUDE = "/v1/projects/p/locations/l/publishers/anthropic/models/c@1"
VERTEX = "/v1/projects/p/locations/l/publishers/google/models/demo-g"


def test_each_built_in_dialect_is_found_by_its_name():
    assert [by_name(dialect.name) for dialect in BUILTIN] == list(BUILTIN)


def test_an_unknown_name_is_refused_with_the_names_that_are_accepted():
    with pytest.raises(UsageError, match=r"dialect: 'nope' is not known; accepted: openai.chat, "):
        by_name("nope")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "openai.chat"),
        ("/openai/deployments/x/chat/completions?api-version=1", "openai.chat"),
        ("/v1/completions", "openai.completions"),
        ("/v1/completions/", "openai.completions"),
        ("/v1/responses", "openai.responses"),
        ("/openai/v1/responses?api-version=preview", "openai.responses"),
        ("/v1/messages", "anthropic.messages"),
        ("/v1/messages?beta=true", "anthropic.messages"),
        (f"{CLAUDE}:streamRawPredict", "anthropic.messages"),
        (f"{CLAUDE}:rawPredict", "anthropic.messages"),
        ("/api/chat", "ollama.chat"),
        ("/api/generate", "ollama.chat"),
        (f"{GEMINI}:streamGenerateContent?alt=sse", "gemini.generate"),
        (f"{VERTEX}:generateContent", "gemini.generate"),
        ("/generate_stream", "tgi.generate"),
        ("/completion", "llamacpp.completion"),
        ("/infill", "llamacpp.completion"),
    ],
)
def test_the_longest_matching_path_ending_decides(path, name):
    dialect = for_path(path)

    assert dialect is not None
    assert dialect.name == name


@pytest.mark.parametrize(
    "path",
    [
        "/v1/embeddings",
        "",
        "/",
        "/v1/completions/x",
        "/v1/responses/resp_1/cancel",
        "/v1/messages/count_tokens",
        "/v1/threads/t/messages",
        f"{GEMINI}:countTokens",
        CLAUDE.replace("/c@1", "/count-tokens:rawPredict"),
        CLAUDE.replace("anthropic", "mistralai") + ":streamRawPredict",
        "/api/tags",
    ],
)
def test_a_path_of_no_dialect_is_none(path):
    assert for_path(path) is None


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/chat/completions", {}, False),
        ("/v1/chat/completions", {"stream": True}, True),
        ("/v1/chat/completions", {"stream": "yes"}, False),
        ("/v1/messages", {"stream": False}, False),
        ("/api/chat", {}, True),
        ("/api/generate", {"stream": None}, True),
        ("/api/chat", {"stream": False}, False),
        (f"{GEMINI}:streamGenerateContent", {"contents": []}, True),
        (f"{GEMINI}:generateContent", {}, False),
        ("/generate_stream", {"inputs": "x"}, True),
        ("/completion", {}, False),
        ("/v1/embeddings", {}, False),
    ],
)
def test_a_stream_is_asked_for_by_the_body_or_by_what_the_endpoint_does_unasked(
    path, body, expected
):
    assert asks_for_stream(path, body) is expected


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/chat/completions", {"model": "m"}, "m"),
        ("/v1/chat/completions", {"model": 5}, None),
        (f"{GEMINI}:streamGenerateContent?alt=sse", {}, "demo-g"),
        (f"{VERTEX}:generateContent", {}, "demo-g"),
        (f"{CLAUDE}:streamRawPredict", {}, "c@1"),
        ("/generate_stream", {}, None),
    ],
)
def test_the_requested_model_stands_in_the_body_or_in_the_path(path, body, expected):
    assert requested_model(path, body) == expected


def test_the_table_of_dialects_is_that_of_the_code():
    text = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| `(\w+)` \| (.+?) \|", text, re.MULTILINE)

    assert rows == [
        (one.name, one.operation, ", ".join(f"`{suffix}`" for suffix in one.path_suffixes))
        for one in BUILTIN
    ]

"""Wire dialects: one file each. A new one is a file and a line in `BUILTIN`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from phasemeter.core.decoding import Decoder, Dialect
from phasemeter.core.errors import UsageError
from phasemeter.dialects.anthropic_messages import AnthropicMessages
from phasemeter.dialects.gemini_generate import GeminiGenerate
from phasemeter.dialects.llamacpp_completion import LlamaCppCompletion
from phasemeter.dialects.ollama_chat import OllamaChat
from phasemeter.dialects.openai_chat import OpenAIChat
from phasemeter.dialects.openai_completions import OpenAICompletions
from phasemeter.dialects.openai_responses import OpenAIResponses
from phasemeter.dialects.tgi_generate import TgiGenerate

__all__ = [
    "BUILTIN",
    "Decoder",
    "Dialect",
    "EndpointDialect",
    "asks_for_stream",
    "by_name",
    "for_path",
    "requested_model",
]


class EndpointDialect(Dialect, Protocol):
    """A dialect that is found by the path of a URL.

    Attributes:
        stream_suffixes: Those endings of its paths that stream unless the body says otherwise.
    """

    @property
    def stream_suffixes(self) -> Sequence[str]: ...  # noqa: D102


BUILTIN: tuple[EndpointDialect, ...] = (
    OpenAIChat(),
    OpenAICompletions(),
    OpenAIResponses(),
    AnthropicMessages(),
    OllamaChat(),
    GeminiGenerate(),
    TgiGenerate(),
    LlamaCppCompletion(),
)
_MODEL_IN_PATH = re.compile(r"/models/([^/:]+):[A-Za-z]+$")
# Of several vendors' models that Vertex serves at such paths, each speaks its vendor's own dialect.
_ANTHROPIC_ON_VERTEX = re.compile(
    r"/publishers/anthropic/models/(?!count-tokens:)[^/:]+:(rawPredict|streamRawPredict)$"
)


def by_name(name: str) -> Dialect:
    """Return the dialect called `name`.

    Raises:
        UsageError: If there is none of that name.
    """
    for dialect in BUILTIN:
        if dialect.name == name:
            return dialect
    accepted = ", ".join(dialect.name for dialect in BUILTIN)
    msg = f"dialect: {name!r} is not known; accepted: {accepted}"
    raise UsageError(msg)


@lru_cache(maxsize=256)
def for_path(path: str) -> Dialect | None:
    """Return the dialect spoken at a URL path, or None where no built-in one is known to be."""
    bare = _bare(path)
    if _ANTHROPIC_ON_VERTEX.search(bare):
        return by_name("anthropic.messages")
    matches = [
        (len(suffix), index)
        for index, dialect in enumerate(BUILTIN)
        for suffix in dialect.path_suffixes
        if bare.endswith(suffix)
    ]
    return BUILTIN[max(matches)[1]] if matches else None


def asks_for_stream(path: str, body: Mapping[str, object]) -> bool:
    """Tell whether a request asks for a stream: by its body, else by what its endpoint does unasked.

    Args:
        path: Path of the URL.
        body: The request's JSON body; empty where it is unknown.
    """
    stream = body.get("stream")
    if isinstance(stream, bool):
        return stream
    bare = _bare(path)
    return any(bare.endswith(suffix) for one in BUILTIN for suffix in one.stream_suffixes)


def requested_model(path: str, body: Mapping[str, object]) -> str | None:
    """Return the model that a request names in its body or in its path; None where it names none.

    Args:
        path: Path of the URL.
        body: The request's JSON body; empty where it is unknown.
    """
    model = body.get("model")
    if isinstance(model, str):
        return model
    found = _MODEL_IN_PATH.search(_bare(path))
    return None if found is None else found[1]


def _bare(path: str) -> str:
    return path.partition("?")[0].rstrip("/")

"""llama.cpp's own completion API, as spoken by llama-server, llamafile and others built on it."""

from __future__ import annotations

from phasemeter.core.decoding import DecodedEvent, Decoder
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Usage
from phasemeter.dialects.document import (
    count_of,
    length_of,
    object_in,
    open_frame,
    text_in,
    token_parts,
)
from phasemeter.dialects.openai_usage import find_usage, read_server_timings


class LlamaCppCompletion:
    """`POST .../completion` and `.../infill` with `stream: true`."""

    name = "llamacpp.completion"
    operation = "text_completion"
    path_suffixes = ("/completion", "/infill")
    stream_suffixes = ()
    json_lines = False
    varying = Varying()

    def decoder(self) -> Decoder:
        """Return a decoder; this dialect has nothing to remember between events."""
        return _LlamaCppDecoder()


class _LlamaCppDecoder:
    def decode(self, frame: Frame) -> DecodedEvent:
        document, event = open_frame(frame)
        if document is None:
            return event
        choice = count_of(document.get("index")) or 0
        if text_in(document, "content"):
            tokens = length_of(document.get("completion_probabilities"))
            tokens = tokens or length_of(document.get("tokens"))
            event.parts = token_parts(["content"], choice=choice, tokens=tokens)
        if "content" in document:
            event.choices = (choice,)
        if document.get("stop") is True:
            event.terminal = True
            event.finish_reason = text_in(document, "stop_type")
        # `tokens_cached` is what the slot holds afterwards; what was reused is told by the timings.
        event.usage = Usage(
            input_tokens=count_of(document.get("tokens_evaluated")),
            cached_input_tokens=count_of(object_in(document, "timings").get("cache_n")),
            output_tokens=count_of(document.get("tokens_predicted")),
        )
        event.server = read_server_timings(document, find_usage(document))
        return event

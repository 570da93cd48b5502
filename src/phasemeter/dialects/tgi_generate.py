"""Text Generation Inference's own API, as spoken by TGI, LoRAX and others: one event, one token."""

from __future__ import annotations

from phasemeter.core.decoding import DecodedEvent, Decoder
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Usage
from phasemeter.dialects.document import (
    count_of,
    object_in,
    open_frame,
    text_in,
    token_parts,
)


class TgiGenerate:
    """`POST .../generate_stream`."""

    name = "tgi.generate"
    operation = "text_completion"
    path_suffixes = ("/generate_stream",)
    stream_suffixes = path_suffixes
    json_lines = False
    varying = Varying()

    def decoder(self) -> Decoder:
        """Return a decoder, which remembers whether text came in tokens."""
        return _TgiDecoder()


class _TgiDecoder:
    def __init__(self) -> None:
        self._token_seen = False

    def decode(self, frame: Frame) -> DecodedEvent:
        document, event = open_frame(frame)
        if document is None:
            return event
        # The special end token counts: it is a decode step and part of `generated_tokens`.
        if text_in(object_in(document, "token"), "text"):
            event.parts = token_parts(["content"], tokens=1)
            self._token_seen = True
        elif not self._token_seen and text_in(document, "generated_text"):
            event.parts = token_parts(["content"])  # one finished answer: the server did not stream
        event.choices = (0,) if event.parts else ()
        event.terminal = isinstance(document.get("generated_text"), str)
        details = object_in(document, "details")
        event.finish_reason = text_in(details, "finish_reason")
        if details:
            event.usage = Usage(
                input_tokens=count_of(details.get("input_length")),
                output_tokens=count_of(details.get("generated_tokens")),
            )
        return event

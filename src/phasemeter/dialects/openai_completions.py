"""OpenAI legacy completions: the text of a choice stands in `text`."""

from __future__ import annotations

from collections.abc import Mapping

from phasemeter.core.decoding import DecodedEvent, Decoder
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.token_events import TokenKind
from phasemeter.dialects.openai_chat import decode_choices


class OpenAICompletions:
    """`POST .../completions` with `stream: true`."""

    name = "openai.completions"
    operation = "text_completion"
    path_suffixes = ("/completions",)
    stream_suffixes = ()
    json_lines = False
    varying = Varying(
        text_keys=("text",), number_keys=("total_tokens",), running_count_key="completion_tokens"
    )

    def decoder(self) -> Decoder:
        """Return a decoder; this dialect has nothing to remember between events."""
        return _CompletionsDecoder()


class _CompletionsDecoder:
    def decode(self, frame: Frame) -> DecodedEvent:
        return decode_choices(frame, _read_choice)


def _read_choice(choice: Mapping[str, object], *, whole: bool) -> list[TokenKind]:
    del whole  # finished completions and chunks are written alike here
    text = choice.get("text")
    return ["content"] if isinstance(text, str) and text else []

"""What a dialect tells the meter about one protocol event. The dialects themselves live above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Usage
from phasemeter.core.token_events import TokenKind


@dataclass(slots=True)
class TokenPart:
    """Generated text of one kind and one choice within an event.

    Attributes:
        kind: Kind of the text.
        choice: Index of the choice (0 where the dialect has no choices).
        tokens: Tokens told by the event itself (token ids, log probabilities), else None.
    """

    kind: TokenKind
    choice: int = 0
    tokens: int | None = None


@dataclass(slots=True)
class DecodedEvent:
    """One protocol event, understood.

    Attributes:
        parts: Generated text, at most one part a kind and choice.
        choices: Indexes of the choices that the event mentions.
        usage: Counts told by the event; a None field says nothing.
        running_output_tokens: Total of generated tokens so far, where the event tells it.
        finish_reason: Raw non-empty finish reason.
        terminal: The event is a terminal mark of its dialect.
        done: Nothing after this event counts.
        error_type: Class of an error told by the event.
        model: Model that the server says it used.
        server: Timings that the server tells about itself, by their own names; None for none.
    """

    parts: Sequence[TokenPart] = ()
    choices: Sequence[int] = ()
    usage: Usage | None = None
    running_output_tokens: int | None = None
    finish_reason: str | None = None
    terminal: bool = False
    done: bool = False
    error_type: str | None = None
    model: str | None = None
    server: Mapping[str, float] | None = None

    @property
    def is_only_text(self) -> bool:
        """True where the event says that there is one piece of text, and perhaps a running count."""
        if len(self.parts) != 1 or self.finish_reason or self.terminal or self.done:
            return False
        if self.error_type is not None or self.server:
            return False
        running = self.running_output_tokens
        return running is None or self.usage == Usage(
            None if self.usage is None else self.usage.input_tokens, output_tokens=running
        )


class Decoder(Protocol):
    """Decodes the frames of one response, in order; holds what the dialect must remember."""

    def decode(self, frame: Frame) -> DecodedEvent:
        """Return what the frame says. Never raises: what is not understood is an empty event."""
        ...


class Dialect(Protocol):
    """A wire dialect: how the events of one kind of endpoint are written.

    Attributes:
        name: `vendor.endpoint`, for instance `openai.chat`.
        operation: `gen_ai.operation.name` of the OpenTelemetry conventions.
        path_suffixes: Endings of the URL paths that speak this dialect.
        json_lines: True for one JSON document a line, False for server-sent events.
        varying: Values that may differ between events of the same meaning.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def operation(self) -> str: ...  # noqa: D102
    @property
    def path_suffixes(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def json_lines(self) -> bool: ...  # noqa: D102
    @property
    def varying(self) -> Varying: ...  # noqa: D102

    def decoder(self) -> Decoder:
        """Return a fresh decoder for one response."""
        ...

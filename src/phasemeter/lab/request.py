"""One request inside the engine: what was asked, how far it is, and what happened when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.lab.tokenizer import EOS_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from phasemeter.lab.weights import Floats, Ints

FinishReason = Literal["length", "stop"]


_GREEDY_BELOW = 1e-6
"""Colder than this the draw is the most likely token anyway, and dividing by it overflows."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn; temperature 0 is greedy, equal seeds give equal draws."""

    max_tokens: int = 16
    min_tokens: int = 0
    ignore_eos: bool = False
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RemoteKV:
    """Where the KV cache of a prompt waits: what a prefill instance answered."""

    engine_id: str
    slot: int
    request_id: str


@dataclass(frozen=True, slots=True)
class TokenOut:
    """A generated token; `finish_reason` is set on the last one."""

    token: int
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ended without all its tokens: by an error, or cancelled (`message` is None)."""

    message: str | None


Output = TokenOut | Failed


@dataclass(frozen=True, slots=True)
class PrefillStep:
    """A step in which prompt tokens of a request were computed."""

    start_ns: int
    end_ns: int
    tokens: int


@dataclass(slots=True, eq=False)
class Request:
    """A request from its admission to its last token.

    Attributes:
        request_id: The client's name for it, or a generated one.
        prompt: Token ids, at least one.
        sampling: How tokens are drawn.
        deliver: Called by the engine with each output, on the engine's thread.
        holds_kv: The KV cache is kept for another instance after the first token.
        remote: The KV cache is to be pulled from there instead of computed.
        internal_id: Unique on this machine; names the hand-off.
        slot: Cache slot while it has one.
        computed_tokens: Tokens whose keys and values are in the cache.
        generated: Token ids so far.
        received_ns: Request body complete: arrived, not yet read.
        scheduled_ns: First given a slot and work.
        kv_pulled_ns: Remote KV cache copied; None where there is none.
        first_token_ns: First token drawn.
        last_token_ns: Latest token drawn.
        prefill_steps: Steps that computed prompt tokens.
    """

    request_id: str
    prompt: Ints
    sampling: Sampling
    deliver: Callable[[Output], None]
    received_ns: int
    holds_kv: bool = False
    remote: RemoteKV | None = None
    internal_id: str = ""
    slot: int | None = None
    computed_tokens: int = 0
    cancelled: bool = False
    generated: list[int] = field(default_factory=list)
    scheduled_ns: int | None = None
    kv_pulled_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    prefill_steps: list[PrefillStep] = field(default_factory=list)
    _rng: np.random.Generator | None = None

    @property
    def pending_tokens(self) -> int:
        """Tokens known but not yet in the cache: prompt tokens, then the latest drawn one."""
        return len(self.prompt) + len(self.generated) - self.computed_tokens

    @property
    def is_prefilling(self) -> bool:
        """Whether prompt tokens are still to be computed."""
        return self.computed_tokens < len(self.prompt)

    @property
    def is_decode_row(self) -> bool:
        """Whether the next work is one token on top of a cache.

        Also true for the last prompt token after a pull or a chunk: it costs the same.
        """
        return self.computed_tokens > 0 and self.pending_tokens == 1

    def next_tokens(self, count: int) -> Ints:
        """Return the next `count` token ids to compute."""
        if self.is_prefilling:
            return self.prompt[self.computed_tokens : self.computed_tokens + count]
        return np.array(self.generated[-1:], dtype=np.int32)

    def draw(self, logits: Floats) -> TokenOut:
        """Draw the next token from its logits (vocab,), which may be overwritten."""
        sampling = self.sampling
        if len(self.generated) < sampling.min_tokens:
            logits[EOS_ID] = -np.inf
        if sampling.temperature > _GREEDY_BELOW:
            if self._rng is None:
                self._rng = np.random.default_rng(sampling.seed)
            # Gumbel-max: the argmax of perturbed logits is a sample of their softmax.
            noise = self._rng.gumbel(size=logits.shape)
            token = int(np.argmax(logits / sampling.temperature + noise))
        else:
            token = int(np.argmax(logits))
        self.generated.append(token)
        return TokenOut(token, self._finish_reason(token))

    def _finish_reason(self, token: int) -> FinishReason | None:
        if token == EOS_ID and not self.sampling.ignore_eos:
            return "stop"
        return "length" if len(self.generated) >= self.sampling.max_tokens else None

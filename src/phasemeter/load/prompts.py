"""Prompts of a given length that no prefix cache has seen.

Token ids are exact where the server takes them. Otherwise the prompt is text of a measured length: the
preflight asks the server how many tokens two texts of known length have, and the line through the two
gives the words for any length. Every prompt is drawn anew from a salt that is new in every run, so that
running the same seed twice never hits a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

# One-byte tokens in every byte-level vocabulary, and past the special tokens at its start.
_LOWEST_ID, _HIGHEST_ID = 40, 220

_WORDS = [
    "river",
    "stone",
    "light",
    "paper",
    "green",
    "window",
    "summer",
    "bridge",
    "garden",
    "silver",
    "morning",
    "table",
    "winter",
    "forest",
    "market",
    "yellow",
    "copper",
    "island",
    "simple",
    "travel",
    "basket",
    "corner",
    "engine",
    "butter",
    "pencil",
    "ladder",
    "valley",
    "harbor",
    "cotton",
    "bottle",
    "pepper",
    "marble",
    "tunnel",
    "planet",
    "candle",
    "ribbon",
    "saddle",
    "turnip",
    "walnut",
    "meadow",
]


@dataclass(frozen=True, slots=True)
class TextLength:
    """Tokens of a text as the server counts them: `fixed_tokens + tokens_per_word x words`."""

    fixed_tokens: float
    tokens_per_word: float

    def words_for(self, prompt_tokens: int) -> int:
        """Return the number of words whose length is nearest to `prompt_tokens`, at least 1."""
        return max(1, round((prompt_tokens - self.fixed_tokens) / self.tokens_per_word))


def token_ids(prompt_tokens: int, salt: str) -> list[int]:
    """Return `prompt_tokens` token ids that follow from the salt."""
    return Random(salt).choices(range(_LOWEST_ID, _HIGHEST_ID), k=prompt_tokens)


def words(number: int, salt: str) -> str:
    """Return a text of `number` words that follows from the salt."""
    return " ".join(Random(salt).choices(_WORDS, k=number))

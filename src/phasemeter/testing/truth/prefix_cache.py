"""Which beginnings of prompts have been seen before, in blocks, as engines keep them."""

from __future__ import annotations

from typing import TypeGuard

BLOCK_TOKENS = 16
_MOST_BLOCKS = 1_000_000


class PrefixCache:
    """Remembers every block of every prompt together with all that came before it."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def take(self, document: dict[str, object]) -> int:
        """Return how many tokens at the begin of a request's prompt are known, and keep all of them.

        A token of a text is a byte of it.
        """
        names = ("prompt", "messages", "text", "input_ids")
        prompt = next((value for name in names if (value := document.get(name)) is not None), "")
        tokens = tuple(prompt) if _is_ids(prompt) else tuple(str(prompt).encode())
        if len(self._seen) > _MOST_BLOCKS:
            self.clear()
        known, running = 0, 0
        for end in range(BLOCK_TOKENS, len(tokens) + 1, BLOCK_TOKENS):
            running = hash((running, tokens[end - BLOCK_TOKENS : end]))
            if running in self._seen and known == end - BLOCK_TOKENS:
                known = end
            self._seen.add(running)
        return known

    def clear(self) -> None:
        """Forget everything."""
        self._seen.clear()


def _is_ids(prompt: object) -> TypeGuard[list[int]]:
    return isinstance(prompt, list) and all(isinstance(one, int) for one in prompt)

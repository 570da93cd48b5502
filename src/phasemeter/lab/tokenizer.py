"""Bytes as tokens: text to ids, ids to printable text, and a plain chat template.

A token id below 256 is a byte of the prompt's UTF-8. On the way out every id becomes one printable
piece of text, so that each token event carries something visible even though a random model would
produce broken UTF-8: bytes 0x21 to 0x7E are themselves, any other byte b is the letter U+0100 + b,
and the specials are `<bos>` and `<eos>`. Output is not meant to be read back as a prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BOS_ID = 256
EOS_ID = 257

_PRINTABLE = range(0x21, 0x7F)

TOKEN_TEXTS: tuple[str, ...] = (
    *(chr(byte) if byte in _PRINTABLE else chr(0x100 + byte) for byte in range(256)),
    "<bos>",
    "<eos>",
)
"""Text of each token id."""


def encode_text(text: str) -> list[int]:
    """Return begin-of-sequence and the UTF-8 bytes of `text`."""
    # A lone surrogate is legal in JSON and has no UTF-8.
    return [BOS_ID, *text.encode("utf-8", errors="replace")]


def encode_chat(messages: Sequence[tuple[str, str]]) -> list[int]:
    """Return the ids of (role, content) pairs, each as `role: content`, then `assistant:`."""
    lines = [f"{role}: {content}\n" for role, content in messages]
    return encode_text("".join(lines) + "assistant:")


def decode(ids: Sequence[int]) -> str:
    """Return the printable text of token ids."""
    return "".join([TOKEN_TEXTS[token] for token in ids])

"""Wire dialects: one file each. A new one is a file and a line in `BUILTIN`."""

from __future__ import annotations

from phasemeter.core.decoding import Decoder, Dialect
from phasemeter.core.errors import UsageError
from phasemeter.dialects.openai_chat import OpenAIChat
from phasemeter.dialects.openai_completions import OpenAICompletions

__all__ = ["BUILTIN", "Decoder", "Dialect", "by_name", "for_path"]

BUILTIN: tuple[Dialect, ...] = (OpenAIChat(), OpenAICompletions())


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


def for_path(path: str) -> Dialect | None:
    """Return the dialect spoken at a URL path, or None where no built-in one is known to be."""
    bare = path.partition("?")[0].rstrip("/")
    matches = [
        (len(suffix), index)
        for index, dialect in enumerate(BUILTIN)
        for suffix in dialect.path_suffixes
        if bare.endswith(suffix)
    ]
    return BUILTIN[max(matches)[1]] if matches else None

"""Labels that follow the calling context: thread, task and what they call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import MappingProxyType

_NO_TAGS: Mapping[str, str] = MappingProxyType({})
_TAGS: ContextVar[Mapping[str, str]] = ContextVar("phasemeter_tags", default=_NO_TAGS)


def current_tags() -> Mapping[str, str]:
    """Return the labels in force here."""
    return _TAGS.get()


@contextmanager
def tag(**labels: str) -> Iterator[None]:
    """Label the requests that are started inside; inner labels win over outer ones.

    Labels are meant to be few and of few values each (a feature, a tier, a prompt version): each
    combination gets its own histograms.

    Args:
        labels: Names and values; a value is text.

    Raises:
        TypeError: If a value is not text.
    """
    for name, value in labels.items():
        if not isinstance(value, str):
            msg = f"tag {name}: a value is str, got {type(value).__name__}"
            raise TypeError(msg)
    token = _TAGS.set(MappingProxyType({**_TAGS.get(), **labels}))
    try:
        yield
    finally:
        # Left in another context than entered (an async generator's clean-up), the labels there are
        # that context's own affair.
        with suppress(ValueError):
            _TAGS.reset(token)

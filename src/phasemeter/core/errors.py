"""Exceptions of phasemeter, and the classes that server errors are sorted into.

PhasemeterError
+-- UsageError     bad input from the user: one clear line, exit code 2
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from types import TracebackType

_LOGGER = logging.getLogger("phasemeter")
_seen_faults: set[str] = set()
_warned: set[str] = set()


class PhasemeterError(Exception):
    """Base of every exception that phasemeter raises on its own account."""


class UsageError(PhasemeterError):
    """Input that cannot be used; the message names the field, the value and what is accepted."""


class guard:
    """Keep our own faults out of user code: log each kind once, raise when PHASEMETER_STRICT=1.

    A class rather than a generator: it stands on paths that run several times a response.

    Args:
        what: What was being done, for the log line. Never contains user text.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(fault, Exception) or os.environ.get("PHASEMETER_STRICT") == "1":
            return False
        key = f"{self._what}: {type(fault).__name__}"
        if key not in _seen_faults:
            _seen_faults.add(key)
            _LOGGER.warning("phasemeter fault while %s", key, exc_info=fault)
        return True


def warn_once(message: str) -> None:
    """Log one line about something that the user should set right; each line once a process."""
    if message not in _warned:
        _warned.add(message)
        _LOGGER.warning("%s", message)


_WORD_CLASSES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("overload", "unavailable"), "overloaded"),
    (("rate_limit", "resource_exhausted", "too_many_requests", "quota"), "rate_limit"),
    (("auth", "permission"), "auth"),
    (("timeout",), "timeout"),
    (("invalid_request", "badrequest", "bad_request"), "invalid_request"),
    (("server_error", "internal", "api_error", "generation"), "server_error"),
)


def classify_error(words: str, number: int | None) -> str:
    """Sort a server's error into one of a few low-cardinality classes.

    Args:
        words: The type, code and status words of the error object, joined by blanks.
        number: A numeric code or the HTTP status, used when no word tells.

    Returns:
        One of overloaded, rate_limit, auth, timeout, invalid_request, server_error, redirect,
        unknown.
    """
    lowered = words.lower()
    for needles, name in _WORD_CLASSES:
        if any(needle in lowered for needle in needles):
            return name
    return _class_of_number(number)


def _class_of_number(number: int | None) -> str:
    if number is None:
        return "unknown"
    by_number = {429: "rate_limit", 503: "overloaded", 529: "overloaded", 401: "auth", 403: "auth"}
    by_number |= {408: "timeout", 504: "timeout"}
    if number in by_number:
        return by_number[number]
    if 300 <= number < 400:
        return "redirect"
    if 400 <= number < 500:
        return "invalid_request"
    return "server_error" if 500 <= number < 600 else "unknown"


def classify_error_object(error: object, http_status: int | None = None) -> str:
    """Sort a decoded error object as `classify_error` does.

    A bare string is a message for people, which is not searched: wordings change, types do not.
    """
    if not isinstance(error, Mapping):
        return _class_of_number(http_status)
    words: list[str] = []
    number: int | None = None
    for key in ("type", "code", "status", "error_type"):
        value = error.get(key)
        if isinstance(value, str):
            words.append(value)
            if re.fullmatch("[1-5][0-9][0-9]", value):
                number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
    # Vendors have numbers of their own (1302, -1): where one says nothing, the HTTP status does.
    if _class_of_number(number) == "unknown":
        number = http_status
    return classify_error(" ".join(words), number)


def classify_error_document(document: object, http_status: int | None = None) -> str:
    """Sort a document that tells an error, under `error` or flat, as `classify_error` does."""
    if not isinstance(document, Mapping):
        return classify_error_object(None, http_status)
    error = document.get("error")
    # Beside a mere message the type and code stand next to it, not in it.
    return classify_error_object(error if isinstance(error, Mapping) else document, http_status)

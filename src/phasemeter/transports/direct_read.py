"""Reads of httpcore's and httpcore2's own streams by the call that these make, without what they set up for it.

For each read, their blocking stream sets the socket's timeout and enters a context manager, and their async
one makes a cancel scope and a timer: more than all that is done here for a chunk. What is read, what is
waited for and which exceptions are raised is the same. Any other stream, and one whose `read` somebody
has replaced, is read through its `read`.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from functools import partial

from phasemeter.transports.network import (
    AsyncNetworkStream,
    NetworkErrors,
    NetworkStream,
    errors_of,
)

Read = Callable[[int, float | None], bytes]


def direct_read(inner: NetworkStream) -> Read:
    """Return what reads a blocking stream: at most so many bytes, within so many seconds."""
    errors = library_errors(inner, "_backends.sync", "SyncStream")
    sock = inner.get_extra_info("socket")
    if errors is None or not isinstance(sock, socket.socket):
        return inner.read
    read_timeout, read_error = errors.ReadTimeout, errors.ReadError
    timeout_is, set_timeout, receive = sock.gettimeout, sock.settimeout, sock.recv

    def read(max_bytes: int, timeout: float | None) -> bytes:
        # hot
        try:
            if timeout_is() != timeout:
                set_timeout(timeout)
            return receive(max_bytes)
        except TimeoutError as error:
            raise read_timeout(error) from error
        except OSError as error:
            raise read_error(error) from error

    return read


def readable_check(inner: NetworkStream | AsyncNetworkStream) -> Callable[[], object]:
    """Return what tells whether bytes wait in a stream's socket: something true if so."""
    asks_inner = partial(inner.get_extra_info, "is_readable")
    if errors_of(type(inner)) is None or not hasattr(select, "poll"):
        return asks_inner
    file = getattr(inner.get_extra_info("socket"), "fileno", None)
    number = -1 if file is None else file()
    if number < 0:
        return asks_inner
    waiting = select.poll()
    waiting.register(number, select.POLLIN)
    return partial(waiting.poll, 0)


def library_errors(inner: object, module: str, name: str) -> NetworkErrors | None:
    """Return a library's exceptions if a stream is of this very class of it, with its own `read`."""
    cls = type(inner)
    errors = errors_of(cls)
    package = cls.__module__.partition(".")[0]
    if errors is None or (cls.__module__, cls.__name__) != (f"{package}.{module}", name):
        return None
    read = getattr(cls, "read", None)
    if getattr(read, "__module__", None) != cls.__module__ or "read" in vars(inner):
        return None
    return errors

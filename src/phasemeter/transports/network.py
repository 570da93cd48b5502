"""What is used of httpcore and httpcore2: network streams, the backends that make them, the exceptions.

Arguments pass through unread where they are `object`.
"""

from __future__ import annotations

import sys
from typing import Protocol, cast

_LIBRARIES = ("httpcore", "httpcore2")


class NetworkStream(Protocol):
    """A blocking network stream."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...  # noqa: D102
    def write(self, *args: object, **options: object) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102
    def start_tls(self, *args: object, **options: object) -> NetworkStream: ...  # noqa: D102
    def get_extra_info(self, info: str) -> object: ...  # noqa: D102


class AsyncNetworkStream(Protocol):
    """An async network stream."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...  # noqa: D102
    async def write(self, *args: object, **options: object) -> None: ...  # noqa: D102
    async def aclose(self) -> None: ...  # noqa: D102
    async def start_tls(self, *args: object, **options: object) -> AsyncNetworkStream: ...  # noqa: D102
    def get_extra_info(self, info: str) -> object: ...  # noqa: D102


class NetworkBackend(Protocol):
    """A blocking backend."""

    def connect_tcp(self, *args: object, **options: object) -> NetworkStream: ...  # noqa: D102
    def connect_unix_socket(self, *args: object, **options: object) -> NetworkStream: ...  # noqa: D102


class AsyncNetworkBackend(Protocol):
    """An async backend."""

    async def connect_tcp(self, *args: object, **options: object) -> AsyncNetworkStream: ...  # noqa: D102
    async def connect_unix_socket(  # noqa: D102
        self, *args: object, **options: object
    ) -> AsyncNetworkStream: ...


class NetworkErrors(Protocol):
    """The exceptions, as far as they are raised here."""

    ConnectError: type[Exception]
    ConnectTimeout: type[Exception]
    ReadError: type[Exception]
    ReadTimeout: type[Exception]
    WriteError: type[Exception]
    WriteTimeout: type[Exception]


def errors_of(cls: type) -> NetworkErrors | None:
    """Return the exceptions of the library that a class comes from; None if it is of neither."""
    library = cls.__module__.partition(".")[0]
    return cast(NetworkErrors, sys.modules[library]) if library in _LIBRARIES else None

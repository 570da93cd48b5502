"""Connections kept alive between requests; as many as there are requests, with no hidden limit."""

from __future__ import annotations

from collections.abc import Iterable

from phasemeter.load.connecting import Connecting
from phasemeter.load.connection import Address, Connection, resolve
from phasemeter.load.target import Endpoint


class ConnectionPool:
    """Idle connections by endpoint, the most recently used first."""

    def __init__(self, connecting: Connecting) -> None:
        self._stamps = connecting.stamps
        self._tls = connecting.tls_context()
        self._addresses: dict[Endpoint, Address] = {}
        self._idle: dict[Endpoint, list[Connection]] = {}

    def resolve(self, endpoints: Iterable[Endpoint]) -> None:
        """Resolve the endpoints' names beforehand.

        Raises:
            OSError: If a name cannot be resolved.
        """
        for endpoint in endpoints:
            tls = endpoint.scheme == "https"
            self._addresses[endpoint] = resolve(endpoint.host, endpoint.port, tls=tls)

    def take(self, endpoint: Endpoint, *, fresh: bool = False) -> Connection:
        """Return an idle connection, or a new one that is connecting.

        Args:
            endpoint: Where to.
            fresh: Do not reuse one.

        Raises:
            OSError: If connecting fails at once.
        """
        idle = self._idle.get(endpoint)
        if idle and not fresh:
            return idle.pop()
        tls = self._tls if endpoint.scheme == "https" else None
        return Connection(self._addresses[endpoint], tls, self._stamps)

    def give_back(self, endpoint: Endpoint, connection: Connection) -> None:
        """Keep a connection for the next request."""
        self._idle.setdefault(endpoint, []).append(connection)

    def forget(self, connection: Connection) -> None:
        """Drop an idle connection that its peer has closed."""
        for idle in self._idle.values():
            if connection in idle:
                idle.remove(connection)

    def close(self) -> None:
        """Close all idle connections."""
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

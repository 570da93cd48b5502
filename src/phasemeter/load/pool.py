"""Connections kept alive between requests; as many as there are requests, with no hidden limit."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from dataclasses import replace

from phasemeter.load.connecting import Connecting
from phasemeter.load.connection import Address, Connection, resolve
from phasemeter.load.target import Endpoint
from phasemeter.transports.arrivals import hold_stamping


class ConnectionPool:
    """Idle connections by endpoint, the most recently used first."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._tls: ssl.SSLContext | None = None
        # Early, so that the kernel stamps by the time that the first answer comes.
        self._stamping = None if connecting.stamps == "recv" else hold_stamping()
        self._addresses: dict[Endpoint, Address] = {}
        self._idle: dict[Endpoint, list[Connection]] = {}

    def resolve(self, endpoints: Iterable[Endpoint]) -> None:
        """Resolve the endpoints' names beforehand.

        Raises:
            OSError: If a name cannot be resolved.
        """
        for endpoint in endpoints:
            if endpoint.scheme == "https" and self._tls is None:
                self._tls = self._connecting.tls_context()
            self._addresses[endpoint] = address_of(endpoint)

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
        return Connection(self._addresses[endpoint], tls, self._connecting.stamps)

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
        if self._stamping is not None:
            self._stamping.close()
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()


def address_of(endpoint: Endpoint) -> Address:
    """Resolve where to connect to for an endpoint: its Unix socket, its proxy or itself.

    Raises:
        OSError: If a name cannot be resolved.
    """
    if endpoint.socket_path:
        return Address(socket.AF_UNIX, endpoint.socket_path)
    tls, proxy = endpoint.scheme == "https", endpoint.proxy
    if proxy is None:
        return resolve(endpoint.host, endpoint.port, tls=tls)
    address = resolve(proxy.host, proxy.port, tls=False)
    if not tls:
        return address
    tunnel = proxy.tunnel_request(endpoint.authority)
    return replace(address, server_name=endpoint.host, tunnel=tunnel)

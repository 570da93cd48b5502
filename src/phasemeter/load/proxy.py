"""Proxies, as the environment names them: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

The rules are those of `urllib.request` (lower case wins, HTTP_PROXY in upper case is not believed in a
CGI process), and besides, loopback addresses are always reached directly: they are this machine's.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit
from urllib.request import (  # type: ignore[attr-defined]
    getproxies_environment,
    proxy_bypass_environment,
)

from phasemeter.core.errors import UsageError

_ACCEPTED = "accepted: http://[USER:PASSWORD@]HOST:PORT, and NO_PROXY for hosts to reach directly"


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy, spoken to in plain.

    Attributes:
        host: Host name or address.
        port: TCP port.
        authorization: Value of the `Proxy-Authorization` header, or None; it holds a password, so it
            is in neither `repr` nor the manifest.
    """

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)

    @property
    def authority(self) -> str:
        """Host and port, as the manifest has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """What requests to the proxy itself carry."""
        return {} if self.authorization is None else {"Proxy-Authorization": self.authorization}

    def tunnel_request(self, authority: str) -> bytes:
        """Return the request that opens a tunnel to `HOST:PORT`."""
        fields = {"Host": authority, "User-Agent": "phasemeter", **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"CONNECT {authority} HTTP/1.1\r\n{head}\r\n".encode("latin-1")


def proxy_for(scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy that the environment names for a server, or None.

    Args:
        scheme: `http` or `https`.
        host: Host name, or address without brackets.
        port: TCP port.

    Raises:
        UsageError: If the environment names something that is no HTTP proxy.
    """
    proxies = getproxies_environment()
    name = scheme if proxies.get(scheme) else "all"
    url = proxies.get(name)
    bypassed = any(proxy_bypass_environment(one) for one in (host, f"{host}:{port}"))
    if not url or _is_loopback(host) or bypassed:
        return None
    return _parse(url, f"{name.upper()}_PROXY")


def _is_loopback(host: str) -> bool:
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _parse(url: str, variable: str) -> Proxy:
    """Read a proxy's URL; faults are told without it, since it may hold a password."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as fault:
        msg = f"{variable}: holds no URL of a proxy; {_ACCEPTED}"
        raise UsageError(msg) from fault
    if parts.scheme != "http":
        msg = f"{variable}: {parts.scheme} proxies are not spoken to; {_ACCEPTED}"
        raise UsageError(msg)
    if not parts.hostname or port == 0:
        msg = f"{variable}: holds no URL of a proxy; {_ACCEPTED}"
        raise UsageError(msg)
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return Proxy(parts.hostname, port or 80, authorization)

"""Something real between the driver and a scripted server: another kind of socket, TLS, or a proxy."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self


class Relay:
    """Accepts connections and passes their bytes on to a TCP port, both ways. A context manager.

    Args:
        listener: Where to accept; closed at the end.
        port: Port on loopback that everything is passed on to.
        tls: Accept with TLS.
        proxy: Take the first head for that of a request to a proxy. `CONNECT` is answered by
            `answer`; anything else is passed on as it is.
        answer: Answer to `CONNECT`.

    Attributes:
        port: Of the listener, unless it is a Unix socket.
        heads: Head of the first request of each connection to the proxy.
    """

    def __init__(
        self,
        listener: socket.socket,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        proxy: Literal["proxy", ""] = "",
        answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n",
    ) -> None:
        self.heads: list[bytes] = []
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._port = port
        self._tls = tls
        self._proxy = proxy
        self._answer = answer
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in list(self._threads):
            thread.join(10)

    def _run(self, target, *arguments) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                self._run(self._serve, near)

    def _serve(self, near: socket.socket) -> None:
        with suppress(OSError):
            first = b""
            if self._tls is not None:
                near = self._tls.wrap_socket(near, server_side=True)
                self._sockets.append(near)
            if self._proxy:
                while b"\r\n\r\n" not in first:
                    data = near.recv(65_536)
                    if not data:
                        return
                    first += data
                self.heads.append(first.split(b"\r\n\r\n")[0])
                if first.startswith(b"CONNECT "):
                    for start in range(0, len(self._answer), 7):  # an answer may come in pieces
                        near.sendall(self._answer[start : start + 7])
                    if b" 200 " not in self._answer:
                        near.close()
                        return
                    first = b""
            far = socket.create_connection(("127.0.0.1", self._port))
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.append(far)
            far.sendall(first)
            self._run(_pass_on, far, near)
            _pass_on(near, far)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)

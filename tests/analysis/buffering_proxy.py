"""A TCP proxy that holds what comes from the server and lets it go at intervals, as some gateways do."""

import socket
import threading
from contextlib import contextmanager, suppress


class _Relay:
    def __init__(self, client, upstream, hold_s):
        self.client, self.upstream, self.hold_s = client, upstream, hold_s
        self.threads = [
            threading.Thread(target=self._up, daemon=True),
            threading.Thread(target=self._down, daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def _up(self):
        with suppress(OSError):
            while data := self.client.recv(65_536):
                self.upstream.sendall(data)
        self.close()

    def _down(self):
        held = b""
        with suppress(OSError):
            while data := self.upstream.recv(65_536):
                held += data
                if self.hold_s:
                    threading.Event().wait(self.hold_s)  # more comes in meanwhile
                    self.upstream.setblocking(False)
                    with suppress(BlockingIOError):
                        while more := self.upstream.recv(65_536):
                            held += more
                    self.upstream.setblocking(True)
                self.client.sendall(held)
                held = b""
        self.close()

    def close(self):
        for one in (self.client, self.upstream):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def relaying(url, *, hold_s):
    """Relay to the server at a URL; gives the URL to use instead. Holds nothing if `hold_s` is 0."""
    host, port = url.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))
    relays = []

    def accept():
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                upstream = socket.create_connection((host, int(port)), timeout=10)
                upstream.settimeout(None)
                for one in (client, upstream):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                relays.append(_Relay(client, upstream, hold_s))

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        for relay in relays:
            relay.close()
            for one in relay.threads:
                one.join(5)
            relay.client.close()
            relay.upstream.close()

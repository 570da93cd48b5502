"""TLS over memory: received bytes in, bytes to send out. The ssl module's sockets drop receive stamps."""

from __future__ import annotations

import ssl

_RECORDS_BYTES = 65_536


class TlsSession:
    """One client-side TLS session, or one through another (a server's through an https proxy's).

    Args:
        context: The caller's context.
        server_hostname: Name for SNI and for the check of the certificate.
        outer: The session whose bytes carry this one's.

    Attributes:
        object: The ssl module's session.
        ended: The peer has ended the session in good order.
    """

    def __init__(
        self, context: ssl.SSLContext, server_hostname: str | None, outer: TlsSession | None
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_hostname
        )
        self.ended = False
        self._outer = outer

    def shake_hands(self, received: bytes | None) -> bool:
        """Go on with the handshake; tell whether it is complete.

        Args:
            received: What came from the socket, empty when the peer has closed, None at the start.

        Raises:
            ssl.SSLError: If it failed; an alert for the peer may be among the bytes to send.
        """
        if received:
            self._feed(received)
        elif received is not None:
            self._incoming.write_eof()
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def decrypt(self, received: bytes) -> bytes:
        """Return the data that received bytes complete; empty where they complete none.

        Raises:
            ssl.SSLError: If they are not what the session's peer sent.
        """
        self._feed(received)
        parts: list[bytes] = []
        while not self.ended:
            try:
                part = self.object.read(_RECORDS_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            if part:
                parts.append(part)
            else:
                self.ended = True
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        """Return the bytes to send for data, and what the session has to send on its own account."""
        if data:
            self.object.write(data)
        to_send = self._outgoing.read()
        return to_send if self._outer is None else self._outer.encrypt(to_send)

    def _feed(self, received: bytes) -> None:
        self._incoming.write(received if self._outer is None else self._outer.decrypt(received))

"""Recorded responses as the bytes that a server would send."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal

from phasemeter.core.decoding import Dialect
from phasemeter.core.meter import StreamEnd
from phasemeter.testing.recorded import RecordedCase

Framing = Literal["chunked", "length", "close"]
FRAMINGS: tuple[Framing, ...] = ("chunked", "length", "close")
STREAMS = Path(__file__).parents[2] / "tests" / "streams"
_FRAMING_HEADERS = ("content-length", "transfer-encoding", "connection")


@dataclass(frozen=True, slots=True)
class Response:
    """One recorded response.

    Attributes:
        name: Name of the case.
        dialect: Dialect it is written in.
        status: HTTP status.
        headers: Headers but for those of the framing.
        body: Body, content-coded where the headers say so.
        whole: It ended as it should; else the connection was lost.
    """

    name: str
    dialect: Dialect
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    whole: bool

    @property
    def is_coded(self) -> bool:
        """True for a body with a content coding."""
        return any(name == "content-encoding" for name, _ in self.headers)

    def compressed(self) -> Response:
        """Return it with the body as gzip; as it is where it has a content coding already."""
        if self.is_coded:
            return self
        coder = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        pieces = [
            coder.compress(block + b"\n\n") + coder.flush(zlib.Z_SYNC_FLUSH)
            for block in self.body.split(b"\n\n")
        ]
        body = b"".join(pieces) + (coder.flush() if self.whole else b"")
        headers = (*self.headers, ("content-encoding", "gzip"))
        return Response(self.name, self.dialect, self.status, headers, body, self.whole)

    def wire(self, framing: Framing, random: Random) -> bytes:
        """Return the response as HTTP/1.1, in chunks of random length where it is chunked."""
        lines = [f"HTTP/1.1 {self.status} Said"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        body = self.body
        if framing == "chunked":
            lines.append("transfer-encoding: chunked")
            body = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in _chunks(body, random))
            body += b"0\r\n\r\n" if self.whole else b""
        elif framing == "length":
            lines.append(f"content-length: {len(body) + (not self.whole)}")
        else:
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def load_responses() -> list[Response]:
    """Return every recorded response of the tests."""
    return [_response_of(RecordedCase.load(path)) for path in sorted(STREAMS.glob("*.json"))]


def _response_of(case: RecordedCase) -> Response:
    headers = tuple(
        (name, value) for name, value in case.headers.items() if name not in _FRAMING_HEADERS
    )
    body = b"".join(data for _, data in case.reads)
    return Response(case.name, case.dialect, case.status, headers, body, case.end is StreamEnd.EOF)


def _chunks(body: bytes, random: Random) -> list[bytes]:
    """Cut a body into non-empty pieces: at events, or anywhere."""
    if random.random() < 0.5:
        return [block + b"\n\n" for block in body.split(b"\n\n")[:-1]] + (
            [body.rpartition(b"\n\n")[2]] if body.rpartition(b"\n\n")[2] else []
        )
    return cut(body, random, random.randrange(1, 20))


def cut(data: bytes, random: Random, pieces: int) -> list[bytes]:
    """Cut bytes into at most so many non-empty pieces, anywhere."""
    places = sorted({0, len(data), *(random.randint(0, len(data)) for _ in range(pieces - 1))})
    return [data[a:b] for a, b in pairwise(places)]

"""The least that any client with kernel stamps does: wait, read, keep. Imports nothing of this project.

One thread, one epoll. Each read is kept as (receive stamp, bytes) and nothing is parsed: a response has
ended when a read ends with the mark of the last chunk. When all have, the events are parsed once with
the json module to see what that alone costs.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import statistics
import struct
import time
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_END = b"\r\n0\r\n\r\n"
_EVENT = b'data: {"'

Reads = list[tuple[int, bytes]]


def _connections(options: argparse.Namespace) -> dict[int, socket.socket]:
    parts = urlsplit(options.url)
    made = {}
    for _ in range(min(options.users, options.requests)):
        one = socket.create_connection((parts.hostname or "", parts.port or 80))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        made[one.fileno()] = one
    return made


def _request(options: argparse.Namespace) -> bytes:
    parts = urlsplit(options.url)
    body = {
        "model": options.model,
        "prompt": " word" * options.prompt_tokens,
        "max_tokens": options.tokens,
        "stream": True,
        "ignore_eos": True,
    }
    content = json.dumps(body).encode()
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _run(options: argparse.Namespace) -> list[Reads]:
    """Return the reads of each response: (stamp in ns, bytes)."""
    request, sockets = _request(options), _connections(options)
    done: list[Reads] = []
    reads: dict[int, Reads] = {}
    left = options.requests
    rest_s = options.rest_ms / 1000
    with select.epoll() as epoll:
        for fd, one in sockets.items():
            epoll.register(fd, select.EPOLLIN)
            reads[fd] = []
            left -= 1
            one.sendall(request)
        while reads:
            for fd, _ in epoll.poll():
                data, ancillary, _, _ = sockets[fd].recvmsg(65_536, 64)
                seconds, nanoseconds = (
                    _TIMESPEC.unpack_from(ancillary[0][2]) if ancillary else (0, 0)
                )
                reads[fd].append((seconds * 1_000_000_000 + nanoseconds, data))
                if data.endswith(_END):
                    done.append(reads.pop(fd))
                    if left:
                        left -= 1
                        reads[fd] = []
                        sockets[fd].sendall(request)
                elif not data:
                    msg = "the server closed a connection"
                    raise SystemExit(msg)
            if rest_s:
                time.sleep(rest_s)
    return done


def _parse_us(done: list[Reads], events: int) -> float:
    """Return the CPU time of finding the events in the reads and parsing their JSON, us an event."""
    begun_s = time.process_time()
    for reads in done:
        for _, data in reads:
            start = data.find(_EVENT)
            while start >= 0:
                end = data.index(b"\n", start)
                json.loads(data[start + 6 : end])
                start = data.find(_EVENT, end)
    return (time.process_time() - begun_s) * 1e6 / events


def main() -> None:
    """Run the load and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--users", "--requests", "--tokens", "--prompt-tokens", "--rest-ms"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--url", "--model"):
        parser.add_argument(name, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    done = _run(options)
    gaps_ms = []
    for reads in done:
        stamps_ns = [t_ns for t_ns, data in reads if b'"text": "' in data or b'"text":"' in data]
        gaps_ms += [(b - a) / 1e6 for a, b in pairwise(stamps_ns[: options.tokens])]
    document = {
        "requests": len(done),
        "gaps_ms": gaps_ms,
        "gap_p99_ms": statistics.quantiles(gaps_ms, n=100, method="inclusive")[98],
        "gap_max_ms": max(gaps_ms),
        "a_response": [(t_ns, data.decode("latin-1")) for t_ns, data in done[0]],
        "parse_us": _parse_us(done, len(done) * options.tokens),
    }
    options.out.write_text(json.dumps(document))


if __name__ == "__main__":
    main()

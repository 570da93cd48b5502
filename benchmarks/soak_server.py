"""A server that keeps a number of streams open at the same time: `python -m benchmarks.soak_server N GAP_S`.

Each request gets its first token at once and the rest when N requests are there, so that N streams
really are open together. Prints its port, and at the end of its input how many were open at most.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from contextlib import suppress

from phasemeter.testing import chat_events

TOKENS = 8
_WAIT_S = 900.0
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class _Together:
    """Holds streams back until enough of them are open; then the next lot is awaited."""

    def __init__(self, wanted: int, gap_s: float) -> None:
        self.most = 0
        self._gap_s = gap_s
        self._wanted = wanted
        self._open = 0
        self._all_there = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await _read_request(reader):
                await self._answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has closed
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        all_there = self._all_there
        self._open += 1
        self.most = max(self.most, self._open)
        if self._open == self._wanted:
            all_there.set()
            self._all_there = asyncio.Event()
        try:
            writer.write(_HEAD + _CHUNKS[0])
            await asyncio.wait_for(all_there.wait(), _WAIT_S)
            for chunk in _CHUNKS[1:]:
                await asyncio.sleep(self._gap_s)
                writer.write(chunk)
            writer.write(b"0\r\n\r\n")
        finally:
            self._open -= 1


def _chunks() -> list[bytes]:
    events = [f"data: {data}\n\n".encode() for _, data in chat_events(kinds=("content",) * TOKENS)]
    # The role with the first token; the finish, the usage and the end mark with the last one.
    parts = [b"".join(events[:2]), *events[2:TOKENS], b"".join(events[TOKENS:])]
    return [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]


_CHUNKS = _chunks()


async def _read_request(reader: asyncio.StreamReader) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return bool(head)


async def _run(wanted: int, gap_s: float) -> None:
    together = _Together(wanted, gap_s)
    server = await asyncio.start_server(together.serve, "127.0.0.1", 0, backlog=4096)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    with suppress(BrokenPipeError):  # the run was ended, so nobody wants to know
        print(json.dumps({"most_open": together.most}), flush=True)


if __name__ == "__main__":
    raise_file_limit()
    asyncio.run(_run(int(sys.argv[1]), float(sys.argv[2])))

"""A server that sends one event at a time, for measuring clients: `python -m benchmarks.paced_server GAP_S`.

A request's `max_tokens` says how many tokens it gets, each in an HTTP chunk and a packet of its own, so
that every client does the same reads. Prints its port; ends with its input.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Sequence
from functools import lru_cache

from benchmarks.memory_network import reply_of
from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.testing import chat_chunk, chat_events

_WORDS = (
    "the",
    "answer",
    "of",
    "a",
    "model",
    "is",
    "made",
    "out",
    "several",
    "different",
    "tokens",
)


@lru_cache
def answer(tokens: int) -> Sequence[bytes]:
    """Return the packets of an answer whose tokens differ, as those of a real one do."""
    events = [data for _, data in chat_events(kinds=("content",) * tokens)]
    told = [
        chat_chunk({"content": f" {_WORDS[one * 7 % len(_WORDS)]}{one}"}) for one in range(tokens)
    ]
    return reply_of([events[0], *told, *events[1 + tokens :]])


def _serve(connection: socket.socket, gap_ns: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as requests:
        while True:
            length = 0
            while (line := requests.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                return
            due_ns = now_ns()
            for packet in answer(json.loads(requests.read(length))["max_tokens"]):
                connection.sendall(packet)
                sent_ns = now_ns()
                due_ns = max(due_ns + gap_ns, sent_ns)
                time.sleep((due_ns - sent_ns) / NS_PER_S)


def main() -> None:
    """Serve until the input ends."""
    gap_ns = round(float(sys.argv[1]) * NS_PER_S)
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, gap_ns), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()

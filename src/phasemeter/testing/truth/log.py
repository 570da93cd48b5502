"""What really happened to each request, as JSON lines."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TextIO

Outcome = Literal["ok", "reset", "gone"]


@dataclass(slots=True)
class RequestTruth:
    """One request; times are CLOCK_MONOTONIC nanoseconds, shared by this machine.

    Attributes:
        request_id: Its X-Request-Id header, or None.
        path: Path asked for.
        stream: Whether the answer was streamed.
        received_ns: Kernel's receive stamp of the request's last bytes (the read's time elsewhere).
        admitted_ns: When it was begun with; later than `received_ns` where it waited for a slot.
        headers_ns: Just before the response headers were sent; None if they were not.
        emit_ns: Just before the send of each token event.
        planned_ns: When the pacing wanted each token event sent.
        prompt_tokens: Length of the prompt, as far as a server without tokenizer can tell.
        cached_tokens: The part of it that was in the prefix cache.
        tokens: Tokens sent.
        blocked_writes: Writes that the kernel did not take whole: the client was not reading.
        outcome: `ok`, `reset` by a fault, or `gone` when the client closed the connection.
    """

    request_id: str | None
    path: str
    stream: bool
    received_ns: int
    admitted_ns: int = 0
    headers_ns: int | None = None
    emit_ns: list[int] = field(default_factory=list)
    planned_ns: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    blocked_writes: int = 0
    outcome: Outcome = "ok"


class TruthLog:
    """Keeps finished requests until there is time to write them.

    Args:
        path: File to write; None counts only.

    Raises:
        OSError: If the file cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        self.requests = 0
        self._waiting: deque[RequestTruth] = deque()
        self._file: TextIO | None = None if path is None else path.open("w", encoding="utf-8")

    def add(self, truth: RequestTruth) -> None:
        """Take a finished request; costs an append."""
        self.requests += 1
        if self._file is not None:
            self._waiting.append(truth)

    def write_one(self) -> bool:
        """Write the oldest waiting request; False when there is none."""
        if not self._waiting or self._file is None:
            return False
        self._file.write(json.dumps(asdict(self._waiting.popleft()), separators=(",", ":")) + "\n")
        return True

    def close(self) -> None:
        """Write what waits and close the file."""
        while self.write_one():
            pass
        if self._file is not None:
            self._file.close()


def read_truth(path: Path) -> list[RequestTruth]:
    """Return the requests of a truth file, in the order in which they ended.

    Raises:
        OSError: If it cannot be read.
    """
    return [RequestTruth(**json.loads(line)) for line in path.read_text().splitlines()]

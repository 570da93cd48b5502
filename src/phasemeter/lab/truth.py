"""What really happened, kept for those who measure from outside."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from phasemeter.lab.config import Role
    from phasemeter.lab.engine import StepTruth
    from phasemeter.lab.request import Request

Outcome = Literal["ok", "cancelled", "error"]

KEPT_REQUESTS = 10_000
KEPT_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class RequestTruth:
    """One finished request; times are CLOCK_MONOTONIC nanoseconds, shared by this machine.

    Attributes:
        request: The request as the engine left it.
        emit_ns: Instant before the socket write of each token event; empty if not streamed.
        finished_ns: After the last write, or when the request was given up.
        outcome: How it ended.
        role: Role of the engine; the leg that it served where the engine is elastic.
    """

    request: Request
    emit_ns: list[int]
    finished_ns: int
    outcome: Outcome
    role: Role

    def to_json(self) -> str:
        """Return one JSON object without line feed; unknown instants are null."""
        request = self.request
        steps = [[step.start_ns, step.end_ns, step.tokens] for step in request.prefill_steps]
        return json.dumps(
            {
                "request_id": request.request_id,
                "received_ns": request.received_ns,
                "scheduled_ns": request.scheduled_ns,
                "kv_pulled_ns": request.kv_pulled_ns,
                "first_token_ns": request.first_token_ns,
                "emit_ns": self.emit_ns,
                "finished_ns": self.finished_ns,
                "prompt_tokens": len(request.prompt),
                "output_tokens": len(request.generated),
                "outcome": self.outcome,
                "role": self.role,
                "prefill_steps": steps,
            },
            separators=(",", ":"),
        )


class TruthLog:
    """The latest requests and steps, and a file of all requests.

    Args:
        path: Where to append one line a request; None for no file.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        self._requests: deque[RequestTruth] = deque(maxlen=KEPT_REQUESTS)
        self._steps: deque[StepTruth] = deque(maxlen=KEPT_STEPS)
        self._file: TextIO | None = None if path is None else path.open("a", encoding="utf-8")

    def add_request(self, truth: RequestTruth) -> None:
        """Keep a finished request and append it to the file."""
        self._requests.append(truth)
        if self._file is not None:
            self._file.write(truth.to_json() + "\n")
            self._file.flush()

    def add_step(self, step: StepTruth) -> None:
        """Keep a step."""
        self._steps.append(step)

    def request_lines(self) -> str:
        """Return the kept requests as JSON lines, oldest first."""
        return "".join([truth.to_json() + "\n" for truth in self._requests])

    def step_lines(self) -> str:
        """Return the kept steps as JSON lines, oldest first."""
        line = '{{"start_ns":{},"end_ns":{},"prefill_tokens":{},"decode_tokens":{},"role":"{}"}}\n'
        return "".join(
            [
                line.format(
                    step.start_ns,
                    step.end_ns,
                    step.prefill_tokens,
                    step.decode_tokens,
                    step.role,
                )
                for step in self._steps
            ]
        )

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

"""The floor: what waiting, reading with kernel stamps and keeping the bytes costs, without a use for them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.peers.tool import Load, Reported, count_gaps


class EpollFloor:
    """Not a product: bounds what a client can take for a token.

    Args:
        name: Short name.
        rest_ms: Pause after each turn, so that more is read in the next.
    """

    package = ""

    def __init__(self, name: str, rest_ms: int) -> None:
        self.name = name
        self.note = "the floor: epoll and recvmsg, bytes kept, nothing parsed"
        if rest_ms:
            self.note += f"; pauses {rest_ms} ms after each turn"
        self._rest_ms = rest_ms

    def install(self, environment: Path) -> None:
        """Nothing to do: it takes the standard library only."""

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        del environment
        script = Path(__file__).with_name("floor_client.py")
        return [
            *(sys.executable, str(script), "--rest-ms", str(self._rest_ms)),
            *("--url", f"{load.url}/v1/completions", "--model", load.model),
            *("--users", str(load.users), "--requests", str(load.requests)),
            *("--tokens", str(load.tokens), "--prompt-tokens", str(load.prompt_tokens)),
            *("--out", str(out / "result.json")),
        ]

    def read(self, out: Path) -> Reported:
        document = json.loads((out / "result.json").read_text())
        gaps, zero_gaps = count_gaps(document["gaps_ms"])
        return Reported(
            requests=document["requests"],
            gap_p99_ms=document["gap_p99_ms"],
            gap_max_ms=document["gap_max_ms"],
            gaps=gaps,
            zero_gaps=zero_gaps,
            parse_us=document["parse_us"],
        )

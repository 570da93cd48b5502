"""Serves the small vLLM of the tests, to be measured by hand: python -m tests.engines.serve [1|2]

One instance, or two that can hand KV caches to each other. Prints their URLs, and serves until it is
interrupted. `python -m tests.engines.set_up vllm` installs it before.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.engines.environments import VLLM, nixl_missing
from tests.engines.vllm_server import Vllm, running_vllm, running_vllm_pair


def main(arguments: list[str]) -> int:
    """Serve; 2 if the argument is not known, 1 if the engine cannot be had."""
    wanted = arguments[0] if arguments else "1"
    if wanted not in ("1", "2") or len(arguments) > 1:
        print("instances: accepted are 1 and 2", file=sys.stderr)
        return 2
    missing = VLLM.missing() or (nixl_missing() if wanted == "2" else None)
    if missing is not None:
        print(missing, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory() as folder,
        _running(wanted, Path(folder)) as servers,
    ):
        for server in servers:
            print(f"{server.url}/v1", flush=True)
        signal.pause()
    return 0


@contextmanager
def _running(wanted: str, folder: Path) -> Iterator[tuple[Vllm, ...]]:
    if wanted == "1":
        with running_vllm(VLLM, folder) as server:
            yield (server,)
    else:
        with running_vllm_pair(VLLM, folder) as pair:
            yield pair


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

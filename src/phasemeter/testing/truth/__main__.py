"""A streaming server that paces tokens and logs when it really sent each.

It has OpenAI's completions and chat, and SGLang's generate.

Usage: python -m phasemeter.testing.truth --port 0 --truth FILE --pacing ttft_ms=200,gap_ms=20

It knows what a client should measure: the kernel's receive stamp of each request and the time right
before the send of each token event, on the monotonic clock that all processes of a machine share. Any
load tester can use it unmodified. Faults (see `phasemeter.testing.truth.pacing`) are set for all requests by
`--pacing`, or for one by its header `X-Truth-Pacing`. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

from phasemeter.core.errors import UsageError
from phasemeter.testing.truth.log import TruthLog
from phasemeter.testing.truth.loop import TruthServer, parent_watch
from phasemeter.testing.truth.pacing import Pacing, parse_pacing

_BACKLOG = 4096


def main() -> int:
    """Serve until SIGTERM, SIGINT or the end of the parent; 2 on bad usage."""
    options = _parser().parse_args()
    try:
        pacing = parse_pacing(options.pacing, Pacing())
        log = TruthLog(options.truth)
        listener = socket.create_server((options.host, options.port), backlog=_BACKLOG)
    except (UsageError, OSError) as fault:
        sys.stderr.write(f"truth server: {fault}\n")
        return 2
    _prepare_process(options.cpu)
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    is_orphan = parent_watch()
    url = f"http://{options.host}:{listener.getsockname()[1]}"
    sys.stdout.write(json.dumps({"ready": url, "model": options.model, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    try:
        TruthServer(listener, pacing, model=options.model, log=log).run(
            lambda: stopped or is_orphan()
        )
    finally:
        log.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--truth", type=Path, help="JSON lines, one a request")
    parser.add_argument("--pacing", default="", help="NAME=VALUE[,NAME=VALUE...]")
    parser.add_argument("--model", default="truth")
    parser.add_argument("--cpu", type=int, help="core to stay on")
    return parser


def _prepare_process(cpu: int | None) -> None:
    """Take as many descriptors as allowed and go before other processes where that is allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    gc.collect()
    gc.freeze()
    gc.disable()  # nothing here makes cycles that matter in a run's time, and a collection is a pause


if __name__ == "__main__":
    sys.exit(main())

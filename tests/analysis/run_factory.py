"""Run folders made by hand: timelines from a few milliseconds, files as the load driver writes them."""

from __future__ import annotations

import json
from itertools import accumulate

from phasemeter.core.clock import WallAnchor
from phasemeter.core.record import Issued, header_line, issued_line, record_line
from phasemeter.core.timeline import Outcome, Timeline, Usage
from phasemeter.core.token_events import TokenEvent

MS = 1_000_000
ANCHOR = WallAnchor(monotonic_ns=0, unix_ns=1_790_000_000_000_000_000)


def ns(value_ms):
    return None if value_ms is None else round(value_ms * MS)


def make_timeline(
    request_id="r1",
    *,
    start_ms=0.0,
    sent_ms=None,
    first_ms=None,
    gaps_ms=(),
    end_ms=None,
    intended_ms=None,
    tokens=1,
    coalesced=(),
    outcome=Outcome.OK,
    usage_tokens=None,
    stamp_source="kernel",
    tags=None,
    **fields,
):
    """A response whose first token comes at `first_ms` and each later one a gap after the one before.

    `coalesced` holds the indexes of events that share the read of the event before them.
    """
    times_ms = [] if first_ms is None else list(accumulate((first_ms, *gaps_ms)))
    reads = accumulate(
        (index > 0 and index not in coalesced for index in range(len(times_ms))), initial=0
    )
    next(reads)
    events = tuple(
        TokenEvent(ns(t_ms), "content", tokens, read)
        for t_ms, read in zip(times_ms, reads, strict=True)
    )
    last_ms = times_ms[-1] if times_ms else start_ms
    return Timeline(
        request_id=request_id,
        dialect="openai.chat",
        operation="chat",
        model="toy",
        stamp_source=stamp_source,
        started_ns=ns(start_ms),
        intended_ns=ns(intended_ms),
        sent_ns=ns(start_ms if sent_ms is None else sent_ms),
        ended_ns=ns(last_ms if end_ms is None else end_ms),
        outcome=outcome,
        events=events,
        usage=Usage(output_tokens=usage_tokens),
        tags={"class": "short"} if tags is None else tags,
        **fields,
    )


def issued_of(timeline):
    return Issued(timeline.request_id, timeline.started_ns, timeline.tags)


def worker_end(worker=0, *, loop_lag_ms=(0.1, 0.5, 1.0)):
    return {
        "worker": worker,
        "cpu_s": 1.0,
        "wall_s": 10.0,
        "reads": 100,
        "token_events": 100,
        "loop_lag_ns": [ns(lag) for lag in loop_lag_ms],
        "send_lag_ns": [0, 0, 0],
        "ended": "done",
    }


def write_run(path, timelines, *, kind="load", still_running=(), marks=(), workers=None, tail=""):
    """Write a run folder with one worker; `tail` is appended to its record file as it is."""
    path.mkdir(parents=True, exist_ok=True)
    manifest = {
        "schema": 1,
        "kind": kind,
        "run_id": "run-1",
        "command": ["phasemeter", kind, "http://127.0.0.1:8000", "--model", "toy"],
        "phasemeter": "0.1.0",
        "created_unix_ns": ANCHOR.unix_ns,
        "anchor": {"monotonic_ns": ANCHOR.monotonic_ns, "unix_ns": ANCHOR.unix_ns},
        "seed": 7,
        "plan": {},
        "target": {"urls": ["http://127.0.0.1:8000"], "model": "toy", "gpus": {"load": 1}},
        "host": {
            "kernel": "6.1",
            "cpu_model": "Toy CPU",
            "cores": 2,
            "governor": None,
            "python": "3.11.7",
        },
    }
    (path / "run.json").write_text(json.dumps(manifest))
    lines = [header_line(ANCHOR, {"worker": 0, "pid": 1})]
    lines += [issued_line(issued_of(timeline)) for timeline in (*timelines, *still_running)]
    lines += [record_line(timeline) for timeline in timelines]
    (path / "records-0.jsonl").write_text("".join(f"{line}\n" for line in lines) + tail)
    if workers is None:
        workers = [worker_end()]
    write_lines(path / "workers.jsonl", workers)
    write_lines(path / "marks.jsonl", marks)
    return path


def write_lines(path, documents):
    if documents:
        path.write_text("".join(json.dumps(document) + "\n" for document in documents))

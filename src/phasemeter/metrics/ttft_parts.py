"""The four parts of TTFT: connect, send, server wait, stream wait; in ns, over requests.

They add up to TTFT exactly. On a reused connection there is nothing to connect: `connect` is undefined
and `send` starts with the request, so that the sum still holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _connect(timeline: Timeline) -> Sequence[int]:
    return span(timeline.started_ns, timeline.connected_ns)


def _send(timeline: Timeline) -> Sequence[int]:
    start_ns = timeline.connected_ns
    return span(timeline.started_ns if start_ns is None else start_ns, timeline.sent_ns)


def _server_wait(timeline: Timeline) -> Sequence[int]:
    return span(timeline.sent_ns, timeline.headers_ns)


def _stream_wait(timeline: Timeline) -> Sequence[int]:
    return span(timeline.headers_ns, timeline.first_token_ns) if timeline.streamed else ()


CONNECT = Metric("connect", "connect", "connected - started", "requests", _connect)
SEND = Metric("send", "send", "sent - connected (sent - started when reused)", "requests", _send)
SERVER_WAIT = Metric("server_wait", "server wait", "headers - sent", "requests", _server_wait)
STREAM_WAIT = Metric(
    "stream_wait", "stream wait", "first_token - headers", "requests", _stream_wait
)

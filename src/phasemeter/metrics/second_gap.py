"""Second gap: time from the first token event to the next, in ns, over requests.

Named after the token that it brings, as Splitwise does (arXiv 2311.18677): a system that gives out the
first token before the KV cache has moved to the instance that decodes shows the move here, as a second
gap longer than the later ones. A system that moves the cache first shows it in `decode_leg`, or in
`ttft` behind a proxy. Undefined where both events came in one read, or a consumer limited the gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Sequence[int]:
    events = timeline.columns
    if not timeline.streamed or len(events) < 2 or events.reads[0] == events.reads[1]:
        return ()
    if events.limited and events.limited[1]:
        return ()
    return (events.times_ns[1] - events.times_ns[0],)


SECOND_GAP = Metric(
    name="second_gap",
    title="gap before the second token event",
    formula="t(event 2) - t(event 1), different reads, not consumer-limited",
    population="requests",
    samples=_samples,
)

"""What is measured: one small file a metric, with its formula, unit and population.

Latency metrics are plain values in `BUILTIN`, in the order of reports. `coalesced` is a count and lives
on the timeline; `fluidity` and `goodput` need limits and are functions.
"""

from phasemeter.metrics.consumer_wait import CONSUMER_WAIT
from phasemeter.metrics.decode import DECODE
from phasemeter.metrics.e2e import E2E
from phasemeter.metrics.e2e_response import E2E_RESPONSE
from phasemeter.metrics.fluidity import fluidity
from phasemeter.metrics.gap import GAP
from phasemeter.metrics.gap_raw import GAP_RAW
from phasemeter.metrics.goodput import goodput_per_s, meets
from phasemeter.metrics.itl import ITL
from phasemeter.metrics.legs import DECODE_LEG, HANDOFF, PREFILL_LEG
from phasemeter.metrics.metric import Metric, Population
from phasemeter.metrics.queue import QUEUE
from phasemeter.metrics.second_gap import SECOND_GAP
from phasemeter.metrics.stall import STALL
from phasemeter.metrics.tpot import TPOT
from phasemeter.metrics.ttfa import TTFA
from phasemeter.metrics.ttfe import TTFE
from phasemeter.metrics.ttft import TTFT
from phasemeter.metrics.ttft_parts import CONNECT, SEND, SERVER_WAIT, STREAM_WAIT
from phasemeter.metrics.ttft_response import TTFT_RESPONSE
from phasemeter.metrics.ttft_wire import TTFT_WIRE

BUILTIN: tuple[Metric, ...] = (
    TTFT,
    TTFT_WIRE,
    TTFT_RESPONSE,
    TTFE,
    TTFA,
    GAP,
    GAP_RAW,
    SECOND_GAP,
    ITL,
    STALL,
    TPOT,
    DECODE,
    E2E,
    E2E_RESPONSE,
    QUEUE,
    CONNECT,
    SEND,
    SERVER_WAIT,
    STREAM_WAIT,
    PREFILL_LEG,
    HANDOFF,
    DECODE_LEG,
    CONSUMER_WAIT,
)

__all__ = [
    "BUILTIN",
    "CONNECT",
    "CONSUMER_WAIT",
    "DECODE",
    "DECODE_LEG",
    "E2E",
    "E2E_RESPONSE",
    "GAP",
    "GAP_RAW",
    "HANDOFF",
    "ITL",
    "PREFILL_LEG",
    "QUEUE",
    "SECOND_GAP",
    "SEND",
    "SERVER_WAIT",
    "STALL",
    "STREAM_WAIT",
    "TPOT",
    "TTFA",
    "TTFE",
    "TTFT",
    "TTFT_RESPONSE",
    "TTFT_WIRE",
    "Metric",
    "Population",
    "fluidity",
    "goodput_per_s",
    "meets",
]

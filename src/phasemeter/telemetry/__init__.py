"""What servers say about themselves: their metrics pages, sampled beside a run on the same clock.

A flavour is one file that maps an engine's metric names to our signals, and a line in `FLAVOURS`.
"""

from phasemeter.telemetry.flavour import Flavour, Source
from phasemeter.telemetry.sample import ServerSample
from phasemeter.telemetry.sglang import SGLANG
from phasemeter.telemetry.vllm import VLLM

FLAVOURS: tuple[Flavour, ...] = (VLLM, SGLANG)

__all__ = ["FLAVOURS", "SGLANG", "VLLM", "Flavour", "ServerSample", "Source"]

"""The load testers that are compared: one file a tool, and the literal tuple of them all."""

from benchmarks.peers.aiohttp_loop import AiohttpLoop
from benchmarks.peers.aiperf import AIPerf
from benchmarks.peers.epoll_floor import EpollFloor
from benchmarks.peers.guidellm import GuideLLM
from benchmarks.peers.inference_perf import InferencePerf
from benchmarks.peers.phasemeter_load import PhasemeterLoad
from benchmarks.peers.tool import Tool
from benchmarks.peers.vllm_bench import VllmBench

__all__ = ["FLOOR", "FLOOR_RESTING", "TOOLS", "YARDSTICK", "by_name"]

YARDSTICK, FLOOR, FLOOR_RESTING = "aiohttp-loop", "epoll-floor", "epoll-floor-1ms"

TOOLS: tuple[Tool, ...] = (
    PhasemeterLoad(),
    AIPerf(),
    GuideLLM(),
    VllmBench(),
    InferencePerf(),
    AiohttpLoop(),
    EpollFloor(FLOOR, rest_ms=0),
    EpollFloor(FLOOR_RESTING, rest_ms=1),
)


def by_name(name: str) -> Tool | None:
    """Return the tool of that name, or None."""
    return next((tool for tool in TOOLS if tool.name == name), None)

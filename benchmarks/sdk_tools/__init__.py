"""The tracing SDKs that are compared: one file a tool, and the literal tuple of all rows."""

from benchmarks.sdk_tools.bare import Bare
from benchmarks.sdk_tools.floor import Floor
from benchmarks.sdk_tools.genai_openai import GenaiOpenai
from benchmarks.sdk_tools.langfuse_sdk import LangfuseSdk
from benchmarks.sdk_tools.langsmith_sdk import LangsmithSdk
from benchmarks.sdk_tools.logfire_sdk import LogfireSdk
from benchmarks.sdk_tools.openinference import OpenInference
from benchmarks.sdk_tools.openlit_sdk import BareOpenai2, OpenlitSdk
from benchmarks.sdk_tools.phasemeter_sdk import PhasemeterSdk
from benchmarks.sdk_tools.tool import SdkTool
from benchmarks.sdk_tools.traceloop import Traceloop

__all__ = ["FULL", "SDK_TOOLS", "sdk_tool"]

SDK_TOOLS: tuple[SdkTool, ...] = (
    Bare(),
    Floor(
        "floor",
        "no tool: the time of each read and its bytes are kept, four events parsed; nothing is made of it",
        spans=False,
    ),
    Floor("floor, spans", "no tool: the floor and three spans with 20 attributes", spans=True),
    PhasemeterSdk("phasemeter, HDR", "HDR histograms only", spans=False, metrics=False),
    PhasemeterSdk("phasemeter", "HDR histograms and spans", spans=True, metrics=False),
    PhasemeterSdk(
        "phasemeter, metrics",
        "HDR histograms, spans and OpenTelemetry metrics, several samples a chunk",
        spans=True,
        metrics=True,
    ),
    GenaiOpenai("genai-openai", "spans", metrics=False),
    GenaiOpenai("genai-openai, metrics", "spans and metrics, a sample a chunk", metrics=True),
    Traceloop(),
    OpenInference(),
    LogfireSdk(),
    LangfuseSdk(),
    LangsmithSdk(),
    BareOpenai2(),
    OpenlitSdk(),
)

FULL = (
    "phasemeter, metrics",
    "genai-openai, metrics",
    "traceloop",
    "openinference",
    "logfire",
    "langfuse",
    "langsmith",
    "openlit",
)
"""One row a tool, with everything on: what is asked what it reports."""


def sdk_tool(name: str) -> SdkTool:
    """Return the tool of that name.

    Raises:
        KeyError: If there is none.
    """
    return {tool.name: tool for tool in SDK_TOOLS}[name]

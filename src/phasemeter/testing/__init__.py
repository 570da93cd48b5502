"""For users' own tests: a clock that can be turned, a scripted server, recorded streams."""

from phasemeter.testing.chat import chat_chunk, chat_events
from phasemeter.testing.clock import FakeClock
from phasemeter.testing.recorded import RecordedCase, differences, summary_of
from phasemeter.testing.server import ScriptedRead, ScriptedReply, ScriptedServer, ServedRequest

__all__ = [
    "FakeClock",
    "RecordedCase",
    "ScriptedRead",
    "ScriptedReply",
    "ScriptedServer",
    "ServedRequest",
    "chat_chunk",
    "chat_events",
    "differences",
    "summary_of",
]

"""Ways to an event loop from where one may not simply call: finalizers and other threads.

What was dropped without a close is found by a finalizer, which must not call sinks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from phasemeter.transports.recorder import Recorder

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def running_loop() -> AbstractEventLoop | None:
    """Return the event loop of asyncio that runs on this thread, without importing asyncio."""
    asyncio = sys.modules.get("asyncio")
    return None if asyncio is None else asyncio._get_running_loop()


def report_later(
    recorder: Recorder, loop: AbstractEventLoop | None, abandon: Callable[[], None]
) -> None:
    """Have `abandon` called at the recorder's next use, and before that if the loop runs on."""
    recorder.postpone(abandon)
    if loop is not None and not loop.is_closed():
        loop.call_soon_threadsafe(abandon)


def run_on(loop: AbstractEventLoop, act: Callable[[], object]) -> None:
    """Call `act` on a loop: at once if that runs here, else soon, and never if it is closed."""
    if running_loop() is loop:
        act()
    elif not loop.is_closed():
        with suppress(RuntimeError):  # closed just now
            loop.call_soon_threadsafe(act)

"""Times every client of httpx and httpx2 in the process, those of openai and anthropic with them.

A client asks its `_transport_for_url` which transport a request goes through; that method's answer is put
under a timing transport, made for the request and gone with it. So clients made before and after are
covered, subclasses and mounts too, and no client object is touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import cast

from phasemeter.clients.httpx_client import FAMILIES, timing_class
from phasemeter.clients.import_watch import ImportWatch
from phasemeter.core.errors import guard, warn_once
from phasemeter.transports.recorder import Recorder
from phasemeter.transports.timing import AsyncTimingTransport, Family, TimingTransport

_CLASSES = (("Client", False), ("AsyncClient", True))
_METHOD = "_transport_for_url"


@dataclass(slots=True)
class _Instrumentation:
    """What is in force; its patches look here at each request.

    Attributes:
        recorder: Where the findings go; None when it has been undone.
        inject_usage: Streams are asked for their token counts.
        patches: What takes each patch out again.
    """

    recorder: Recorder | None
    inject_usage: bool
    patches: dict[type, Callable[[], None]] = field(default_factory=dict)


_lock = RLock()
_current: _Instrumentation | None = None
_watch: ImportWatch | None = None


def current_recorder() -> Recorder | None:
    """Return the recorder in force, None where the process is not instrumented."""
    instrumentation = _current
    return None if instrumentation is None else instrumentation.recorder


def instrument(recorder: Recorder, *, inject_usage: bool | None) -> None:
    """Time every client of the process. Again, it changes what is in force from the next request on.

    Args:
        recorder: Where the findings go.
        inject_usage: Ask streams for their token counts. None leaves it as it is, at first off.
    """
    global _current, _watch  # noqa: PLW0603  one per process, by design
    with _lock:
        if _current is None:
            _current = _Instrumentation(recorder, inject_usage or False)
            _watch = ImportWatch(FAMILIES, _patch_family)
            _watch.start()
        else:
            _current.recorder = recorder
            if inject_usage is not None:
                _current.inject_usage = inject_usage
    # Not under the lock: another thread may be importing one of them, and call us when it has.
    for name in FAMILIES:
        if name in sys.modules:
            _patch_family(import_module(name))


def uninstrument() -> None:
    """Take the patches out. What others have patched over ours stays, and ours under it does nothing."""
    global _current, _watch  # noqa: PLW0603
    with _lock:
        if _current is None or _watch is None:
            return
        _watch.stop()
        _current.recorder = None
        for take_out in _current.patches.values():
            take_out()
        _current = _watch = None


def _patch_family(module: ModuleType) -> None:
    with _lock:
        if _current is None:
            return
        for name, is_async in _CLASSES:
            cls = getattr(module, name, None)
            if not isinstance(cls, type) or cls in _current.patches:
                continue
            if not callable(getattr(cls, _METHOD, None)):
                warn_once(
                    f"{module.__name__}.{name} has no {_METHOD} in this version, so instrument() does "
                    f"not time it; phasemeter.wrap() does"
                )
                continue
            _current.patches[cls] = _patch(cls, cast(Family, module), _current, is_async=is_async)


def _patch(
    cls: type, family: Family, instrumentation: _Instrumentation, *, is_async: bool
) -> Callable[[], None]:
    """Patch one class; return what takes the patch out where it is still the outermost one."""
    own = vars(cls).get(_METHOD)
    original = cast(Callable[[object, object], object], getattr(cls, _METHOD))

    @wraps(original)
    def transport_for_url(client: object, url: object) -> object:
        transport = original(client, url)
        recorder = instrumentation.recorder
        if recorder is None or isinstance(transport, TimingTransport | AsyncTimingTransport):
            return transport
        with guard("timing a request of an instrumented client"):
            timing = timing_class(is_async=is_async, inject_usage=instrumentation.inject_usage)
            return timing(transport, family, recorder)
        return transport

    def take_out() -> None:
        if vars(cls).get(_METHOD) is not transport_for_url:
            return
        if own is None:
            delattr(cls, _METHOD)
        else:
            setattr(cls, _METHOD, own)

    setattr(cls, _METHOD, transport_for_url)
    return take_out

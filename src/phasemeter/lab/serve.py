"""Run one engine process: the engine's loop and its HTTP server on one thread of one core."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Self

from phasemeter.lab.process import ParentWatch, pin_to_cpu, use_one_blas_thread

if "numpy" not in sys.modules:
    use_one_blas_thread()

import uvicorn
from threadpoolctl import threadpool_limits

from phasemeter.lab.app import App
from phasemeter.lab.engine import Engine
from phasemeter.lab.exposition import EngineMetrics
from phasemeter.lab.listener import StampingListener
from phasemeter.lab.truth import TruthLog

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    from phasemeter.lab.config import EngineConfig
    from phasemeter.lab.engine import StepTruth

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_IDLE_S = 0.05
"""How often an idle engine looks after leases and its parent."""

_BLOCKED_S = 0.002
"""How often a prefill engine whose slots are all held looks for a release."""

_LOOP_TURNS = 4
"""Turns of the event loop at a time: a new request is accepted, read, started and submitted."""


def serve(config: EngineConfig) -> None:
    """Serve until SIGTERM, SIGINT or, if asked for, the parent's end.

    When requests are accepted, one JSON line goes to standard output:
    `{"ready": true, "url": ..., "pid": ..., "role": ..., "policy": ...}`.

    Raises:
        ValueError: The core, or the shared memory, is not to be had.
        OSError: The port or the truth file is not to be had.
    """
    parent = ParentWatch()
    if config.cpu is not None:
        pin_to_cpu(config.cpu)
    with _StopFlag() as stop, threadpool_limits(1), _listen(config) as listener:
        truth = TruthLog(config.truth_path)  # first: a bad path must not leave a segment
        engine = Engine(config)
        try:
            engine.warm_up()
            asyncio.run(_EngineServer(config, engine, truth, parent, stop, listener).run())
        finally:
            engine.close()
            truth.close()


def _listen(config: EngineConfig) -> StampingListener:
    listener = StampingListener(socket.AF_INET6 if ":" in config.host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


class _StopFlag:
    """Set by SIGTERM and SIGINT while entered; main thread only."""

    def __init__(self) -> None:
        self.is_set = False

    def __enter__(self) -> Self:
        self._previous = [(number, signal.signal(number, self._set)) for number in _STOP_SIGNALS]
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._previous:
            signal.signal(number, handler)

    def _set(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


class _HttpServer(uvicorn.Server):
    """A server that tells when it accepts, and leaves signals to `_StopFlag`."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


class _EngineServer:
    def __init__(
        self,
        config: EngineConfig,
        engine: Engine,
        truth: TruthLog,
        parent: ParentWatch,
        stop: _StopFlag,
        listener: StampingListener,
    ) -> None:
        self._listener = listener
        self._config = config
        self._engine = engine
        self._parent = parent
        self._stop = stop
        self._metrics = EngineMetrics(engine)
        self._truth = truth
        self._submitted = asyncio.Event()
        app = App(
            engine,
            self._metrics,
            self._truth,
            arrivals_ns=listener.arrivals_ns,
            on_submit=self._submitted.set,
        )
        self._http_config = uvicorn.Config(
            app,
            http="httptools",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            proxy_headers=False,
            # Idle connections of a load generator must survive a pause between phases.
            timeout_keep_alive=600,
            # Streams in flight end with the process; they are recorded as cancelled.
            timeout_graceful_shutdown=0,
        )

    async def run(self) -> None:
        # Weights and modules live as long as the process: a full collection need not visit them.
        gc.collect()
        gc.freeze()
        on_ready = partial(self._say_ready, self._listener.getsockname()[1])
        http = _HttpServer(self._http_config, on_ready)
        serving = asyncio.create_task(http.serve(sockets=[self._listener]))
        try:
            await self._run_engine()
        finally:
            # Streams cut by the end of the process are recorded, and are no errors to log.
            logging.getLogger("uvicorn.error").disabled = True
            http.should_exit = True
            await serving

    def _say_ready(self, port: int) -> None:
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        ready = {
            "ready": True,
            "url": f"http://{host}:{port}",
            "pid": os.getpid(),
            "role": self._config.role,
            "policy": self._config.policy,
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()

    async def _run_engine(self) -> None:
        while not self._must_exit():
            self._submitted.clear()
            did_work = await self._step()
            if not did_work and not self._must_exit():
                await self._wait_for_work()

    async def _step(self) -> bool:
        """Run one step with its pauses and let its tokens out; return whether it did anything."""
        step = await self._pausing(self._engine.step_parts())
        # First the writers of this step's tokens, then whoever came in meanwhile.
        await _turn_loop()
        if step is None:
            return False
        self._truth.add_step(step)
        self._metrics.count_step(step)
        return True

    async def _pausing(self, parts: Generator[None, None, StepTruth | None]) -> StepTruth | None:
        while not self._must_exit():
            try:
                next(parts)
            except StopIteration as stop:
                truth: StepTruth | None = stop.value
                return truth
            # In a long prefill: take in requests and disconnects, and heed a signal.
            await _turn_loop()
        return None

    async def _wait_for_work(self) -> None:
        # A step may be waiting for a slot that another process must release: look more often.
        patience_s = _BLOCKED_S if self._engine.has_work else _IDLE_S
        try:
            await asyncio.wait_for(self._submitted.wait(), patience_s)
        except TimeoutError:
            return

    def _must_exit(self) -> bool:
        return self._stop.is_set or (self._config.exit_with_parent and self._parent.is_gone())


async def _turn_loop() -> None:
    for _ in range(_LOOP_TURNS):
        await asyncio.sleep(0)

"""A tool's process, as the comparison sees it: commands out, answers back, every wait bounded."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.sdk_tools.tool import SdkTool
from phasemeter.core.clock import NS_PER_S, now_ns

ROOT = Path(__file__).parents[1]
_END_S = 10.0


class SdkProcessError(Exception):
    """The process gave no answer; the text says why."""


class SdkProcess:
    """A worker module running in a tool's environment. Use as a context manager.

    Args:
        tool: The tool.
        how: `sync` or `async`.
        environment: Folder of its virtual environment.
        log: File that takes what it prints.
        module: Worker module.
        arguments: What else it is given.
    """

    def __init__(
        self,
        tool: SdkTool,
        how: str,
        environment: Path,
        log: Path,
        *,
        module: str,
        arguments: Sequence[str] = (),
    ) -> None:
        self.tool = tool
        self.how = how
        self._log = log
        self._running = ExitStack()
        log.parent.mkdir(parents=True, exist_ok=True)
        errors = self._running.enter_context(log.open("wb"))
        self._process = subprocess.Popen(
            [str(environment / "bin" / "python"), "-m", module, tool.name, how, *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
                "PYTHONHASHSEED": "0",
                **tool.variables,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        self._unread = b""

    def ask(self, what: str, *, timeout_s: float = 120.0, **arguments: object) -> dict[str, Any]:
        """Send a command and wait for its answer.

        Raises:
            SdkProcessError: If none comes in time, or the process has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as fault:
            raise SdkProcessError(self._last_words()) from fault
        answer: dict[str, Any] = json.loads(self._line(timeout_s))
        return answer

    def _line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        deadline_ns = now_ns() + round(timeout_s * NS_PER_S)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                left_s = (deadline_ns - now_ns()) / NS_PER_S
                if left_s <= 0 or not selector.select(left_s):
                    msg = f"no answer within {timeout_s:.0f} s"
                    raise SdkProcessError(msg)
                data = os.read(self._process.stdout.fileno(), 65_536)
                if not data:
                    raise SdkProcessError(self._last_words())
                self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        said = [line for line in lines if line.strip()] or ["it said nothing"]
        return f"its process ended: {said[-1].strip()[:200]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._running:
            try:
                self._process.stdin.close()
                self._process.wait(_END_S)
            except (OSError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()


@contextmanager
def sdk_processes(
    tools: Mapping[SdkTool, Path],
    hows: tuple[str, ...],
    logs: Path,
    *,
    module: str,
    arguments: Sequence[str] = (),
) -> Iterator[list[SdkProcess]]:
    """Run a process for each tool and way; all are ended on leaving."""
    with ExitStack() as running:
        yield [
            running.enter_context(
                SdkProcess(
                    tool,
                    how,
                    environment,
                    logs / f"{tool.name.replace(', ', '-').replace(' ', '-')}-{how}.txt",
                    module=module,
                    arguments=arguments,
                )
            )
            for how in hows
            for tool, environment in tools.items()
        ]

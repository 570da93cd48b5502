"""What an engine process asks of its operating system: one core, one BLAS thread, a parent."""

from __future__ import annotations

import os

_BLAS_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def use_one_blas_thread() -> None:
    """Make numpy's BLAS start without helper threads; call before numpy is first imported."""
    for variable in _BLAS_THREAD_VARIABLES:
        os.environ[variable] = "1"


def pin_to_cpu(cpu: int) -> None:
    """Bind this process to one core.

    Raises:
        ValueError: The core is not available to this process, or the system cannot pin.
    """
    if not hasattr(os, "sched_setaffinity"):
        msg = f"cpu {cpu} was asked for, but this system cannot pin a process to a core"
        raise ValueError(msg)
    # Not checked against the present affinity: that may be a pinned launcher's, inherited.
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        msg = f"cpu must be a core that this process may use, got {cpu}"
        raise ValueError(msg) from None


class ParentWatch:
    """Tells whether the process that started this one is still there.

    It compares parent process ids rather than asking Linux for a death signal: that signal fires
    when the *thread* that started the process ends, which a launcher may well do while it lives.
    """

    def __init__(self) -> None:
        self._parent_pid = os.getppid()

    def is_gone(self) -> bool:
        """Return whether the process has been handed to another parent since construction."""
        return os.getppid() != self._parent_pid

import os
import subprocess
import sys

import pytest

from phasemeter.lab.process import ParentWatch, pin_to_cpu, use_one_blas_thread

CAN_PIN = hasattr(os, "sched_setaffinity")


@pytest.mark.skipif(not CAN_PIN, reason="the system cannot pin")
def test_a_core_that_is_not_there_is_refused():
    """The message names the field; the affinity stays."""
    before = os.sched_getaffinity(0)

    with pytest.raises(ValueError, match="cpu must be a core that this process may use, got 4000"):
        pin_to_cpu(4000)

    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(not CAN_PIN, reason="the system cannot pin")
def test_pinning_binds_to_one_core():
    """Done in a process of its own, since it lasts."""
    core = min(os.sched_getaffinity(0))
    code = (
        "import os; from phasemeter.lab.process import pin_to_cpu; "
        f"pin_to_cpu({core}); print(os.sched_getaffinity(0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == f"{{{core}}}"


def test_blas_threads_are_set_for_every_library(monkeypatch):
    """A value from the user's environment is overruled: the engine is one core by definition."""
    names = ("OPENBLAS", "MKL", "OMP", "BLIS")
    for name in names:
        monkeypatch.setenv(f"{name}_NUM_THREADS", "8")
    monkeypatch.setenv("VECLIB_MAXIMUM_THREADS", "8")
    use_one_blas_thread()

    assert [os.environ[f"{name}_NUM_THREADS"] for name in names] == ["1"] * 4
    assert os.environ["VECLIB_MAXIMUM_THREADS"] == "1"


def test_a_parent_is_there_until_it_is_another(monkeypatch):
    """Being handed to another parent is the sign."""
    watch = ParentWatch()
    assert not watch.is_gone()

    monkeypatch.setattr(os, "getppid", lambda: 1_000_000)
    assert watch.is_gone()

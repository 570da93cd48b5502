"""Importing phasemeter loads the standard library only."""

import subprocess
import sys

import pytest

HEAVY = (
    "openai",
    "anthropic",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "numpy",
    "opentelemetry",
    "hdrh",
)


def modules_after(statement):
    script = f"import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


def test_importing_the_package_loads_the_standard_library_only():
    """Third-party modules come with what needs them."""
    added = modules_after("import phasemeter") - modules_after("pass")

    assert added - sys.stdlib_module_names == {"phasemeter"}


@pytest.mark.parametrize("name", ["tag", "timeline", "Timeline", "RecordSink", "CallbackSink"])
def test_light_names_stay_light(name):
    """Taking one does not load a client library, numpy, OpenTelemetry or histograms."""
    assert not modules_after(f"import phasemeter; phasemeter.{name}") & set(HEAVY)


def test_wrapping_loads_no_client_library():
    """Adapters work over the module that the client came with."""
    loaded = modules_after("import phasemeter; phasemeter.Meter(sinks=[])")

    assert not loaded & {"openai", "anthropic", "httpx", "httpx2", "numpy"}


def test_every_public_name_resolves():
    """__all__ and the table of homes agree."""
    import phasemeter

    for name in phasemeter.__all__:
        assert getattr(phasemeter, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        phasemeter.nonsense  # noqa: B018

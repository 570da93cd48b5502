"""Exceptions to ends and low-cardinality names."""

import asyncio

import httpx
import httpx2
import pytest

from phasemeter.core.meter import StreamEnd
from phasemeter.transports.endings import end_of, stop_in_flight


@pytest.mark.parametrize(
    ("error", "end", "error_type"),
    [
        (httpx.ReadTimeout("x"), StreamEnd.TIMED_OUT, "timeout"),
        (httpx2.PoolTimeout("x"), StreamEnd.TIMED_OUT, "timeout"),
        (TimeoutError(), StreamEnd.TIMED_OUT, "timeout"),
        (httpx.ConnectError("x"), StreamEnd.LOST, "httpx.ConnectError"),
        (httpx2.RemoteProtocolError("x"), StreamEnd.LOST, "httpx2.RemoteProtocolError"),
        (ConnectionResetError(), StreamEnd.LOST, "ConnectionResetError"),
        (asyncio.CancelledError(), StreamEnd.CLOSED, "asyncio.CancelledError"),
        (KeyboardInterrupt(), StreamEnd.CLOSED, "KeyboardInterrupt"),
        (GeneratorExit(), StreamEnd.CLOSED, None),
    ],
)
def test_an_exception_tells_how_the_response_ended(error, end, error_type):
    """Timeouts of every kind are one class; what is no Exception means that the caller stopped."""
    assert end_of(error) == (end, error_type)


def test_only_a_stop_in_flight_marks_a_close():
    """A user's own exception around a close does not."""
    assert stop_in_flight() is None
    try:
        raise KeyError
    except KeyError:
        assert stop_in_flight() is None
    try:
        raise asyncio.CancelledError
    except asyncio.CancelledError:
        assert stop_in_flight() == "asyncio.CancelledError"

"""Classes of server errors, and the guard that keeps our faults out of user code."""

import logging
import uuid

import pytest

from phasemeter.core.errors import (
    classify_error,
    classify_error_document,
    classify_error_object,
    guard,
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("overloaded_error", "overloaded"),
        ("ServiceUnavailableError", "overloaded"),
        ("rate_limit_exceeded", "rate_limit"),
        ("RESOURCE_EXHAUSTED", "rate_limit"),
        ("too_many_requests", "rate_limit"),
        ("insufficient_quota", "rate_limit"),
        ("AuthenticationError", "auth"),
        ("permission_denied", "auth"),
        ("request_timeout", "timeout"),
        ("invalid_request_error", "invalid_request"),
        ("BadRequestError", "invalid_request"),
        ("bad_request", "invalid_request"),
        ("server_error", "server_error"),
        ("InternalServerError", "server_error"),
        ("api_error", "server_error"),
        ("generation", "server_error"),
        ("tokens", "unknown"),
    ],
)
def test_words_decide_the_class(words, expected):
    assert classify_error(words, None) == expected


def test_an_earlier_class_wins_over_a_later_one_and_words_over_numbers():
    assert classify_error("internal auth overload", 429) == "overloaded"
    assert classify_error("internal timeout", 429) == "timeout"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (429, "rate_limit"),
        (503, "overloaded"),
        (529, "overloaded"),
        (401, "auth"),
        (403, "auth"),
        (408, "timeout"),
        (504, "timeout"),
        (400, "invalid_request"),
        (404, "invalid_request"),
        (422, "invalid_request"),
        (499, "invalid_request"),
        (500, "server_error"),
        (502, "server_error"),
        (599, "server_error"),
        (200, "unknown"),
        (None, "unknown"),
        (-1, "unknown"),
        (1302, "unknown"),
    ],
)
def test_a_number_decides_where_no_word_does(number, expected):
    assert classify_error("", number) == expected
    assert classify_error_object({"code": number}) == expected


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        ({"code": "503", "type": "x"}, None, "overloaded"),
        ({"code": "²"}, None, "unknown"),
        ({"code": "1" * 5000}, 404, "invalid_request"),
        ({"code": True}, None, "unknown"),
        ({"code": 1302}, 429, "rate_limit"),
        ({"code": 404}, 500, "invalid_request"),
        ({"type": None, "code": None, "status": "UNAVAILABLE"}, 500, "overloaded"),
        ({"message": "rate_limit"}, None, "unknown"),
        ("rate_limit", None, "unknown"),
        (None, 503, "overloaded"),
    ],
)
def test_an_error_object_is_classed_by_its_own_words_then_its_number_then_the_status(
    error, status, expected
):
    assert classify_error_object(error, status) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"error": {"type": "server_error"}, "code": 429}, "server_error"),
        ({"error": "wording", "error_type": "overloaded"}, "overloaded"),
        ({"error": "wording", "status": 401}, "auth"),
        ({"error": "wording"}, "unknown"),
        ({"type": "BadRequestError"}, "invalid_request"),
        (["odd"], "unknown"),
    ],
)
def test_the_type_of_a_mere_message_stands_next_to_it(document, expected):
    assert classify_error_document(document) == expected


def fail_guarded(what, fault):
    with guard(what):
        raise fault


def test_the_guard_swallows_and_logs_each_kind_once(monkeypatch, caplog):
    monkeypatch.delenv("PHASEMETER_STRICT", raising=False)
    what = f"testing {uuid.uuid4()}"

    with caplog.at_level(logging.WARNING, logger="phasemeter"):
        for fault in (ValueError("a"), ValueError("b"), KeyError("c")):
            fail_guarded(what, fault)

    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        f"phasemeter fault while {what}: ValueError",
        f"phasemeter fault while {what}: KeyError",
    ]


def test_the_guard_raises_when_strict(monkeypatch):
    monkeypatch.setenv("PHASEMETER_STRICT", "1")

    with pytest.raises(ValueError, match="a"):
        fail_guarded("testing", ValueError("a"))


def test_the_guard_never_holds_up_an_interrupt(monkeypatch):
    monkeypatch.delenv("PHASEMETER_STRICT", raising=False)

    with pytest.raises(KeyboardInterrupt):
        fail_guarded("testing", KeyboardInterrupt())

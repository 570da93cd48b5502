"""Case files: what they say is what the meter is fed with; a bad one is refused in one line."""

import json

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.core.meter import StreamEnd
from phasemeter.testing import RecordedCase, differences, summary_of

TOKEN = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
CASE = {
    "name": "toy",
    "dialect": "openai.chat",
    "status": 200,
    "headers": {"Content-Type": "text/event-stream"},
    "reads": [[1.5, TOKEN[:9]], [2.25, TOKEN[9:]]],
    "end": {"t_ms": 3, "how": "eof"},
}


def write(tmp_path, document):
    path = tmp_path / "toy.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def load(tmp_path, **changes):
    return RecordedCase.load(write(tmp_path, CASE | changes))


def test_times_are_in_ns_from_the_request_and_headers_in_lower_case(tmp_path):
    case = load(tmp_path, headers_t_ms=0.5)

    assert case.reads == ((1_500_000, TOKEN[:9].encode()), (2_250_000, TOKEN[9:].encode()))
    assert (case.headers_ns, case.end_ns, case.end) == (500_000, 3_000_000, StreamEnd.EOF)
    assert case.headers == {"content-type": "text/event-stream"}


def test_a_read_may_be_bytes_in_base64_and_a_reset_is_a_lost_connection(tmp_path):
    case = load(tmp_path, reads=[[1, {"b64": "AP8="}]], end={"t_ms": 2, "how": "reset"})

    assert case.reads == ((1_000_000, b"\x00\xff"),)
    assert case.end is StreamEnd.LOST


def test_headers_without_a_time_are_there_with_the_first_read(tmp_path):
    assert load(tmp_path).run().headers_ns == 1_500_000
    assert load(tmp_path, reads=[]).run().headers_ns == 3_000_000
    assert load(tmp_path, headers_t_ms=0).run().headers_ns == 0


def test_the_name_is_the_files_where_the_case_has_none(tmp_path):
    document = {name: value for name, value in CASE.items() if name != "name"}

    assert RecordedCase.load(write(tmp_path, document)).name == "toy"


def test_only_what_differs_is_told_and_only_of_what_is_expected(tmp_path):
    timeline = load(tmp_path).run()

    assert differences(timeline, summary_of(timeline)) == {}
    assert differences(timeline, {}) == {}
    expect = {"outcome": "ok", "first_token_ms": 9, "nonsense": 1}
    assert differences(timeline, expect) == {"first_token_ms": (2.25, 9), "nonsense": (None, 1)}


@pytest.mark.parametrize("field", ["dialect", "status", "headers", "reads", "end"])
def test_a_missing_field_is_named(tmp_path, field):
    document = {name: value for name, value in CASE.items() if name != field}

    with pytest.raises(UsageError, match=rf"toy\.json: {field}: missing; accepted: "):
        RecordedCase.load(write(tmp_path, document))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"dialect": "nope"}, "dialect: 'nope' is not known; accepted: "),
        ({"dialect": 5}, "dialect: text is accepted, not int"),
        ({"status": "200"}, "status: a whole number is accepted, not str"),
        ({"status": True}, "status: "),
        ({"headers": []}, "headers: an object is accepted, not list"),
        ({"headers": {"a": None}}, "headers.a: text is accepted, not NoneType"),
        ({"reads": "x"}, "reads: a list is accepted, not str"),
        ({"reads": [[1, "a"], [2]]}, "reads[1]: "),
        ({"reads": [["x", "a"]]}, "reads[0]: a time in ms is accepted, not 'x'"),
        ({"reads": [[1, 5]]}, "reads: data is text or "),
        ({"reads": [[1, {"b64": "%"}]]}, "reads: not base64"),
        ({"reads": [[1, "\ud800"]]}, "reads: not text"),
        ({"end": "eof"}, "end: an object is accepted, not str"),
        ({"end": {"t_ms": 1, "how": "boom"}}, "end.how: 'boom' is not known; accepted: eof, reset"),
        ({"end": {"t_ms": 1}}, "how: missing"),
        ({"end": {"how": "eof"}}, "end.t_ms: a time in ms is accepted, not None"),
        ({"headers_t_ms": "soon"}, "headers_t_ms: "),
        ({"headers_t_ms": float("inf")}, "headers_t_ms: "),
        ({"headers_t_ms": float("nan")}, "headers_t_ms: "),
        ({"expect": ["ok"]}, "expect: an object is accepted, not list"),
    ],
)
def test_a_misstated_field_is_named(tmp_path, changes, named):
    with pytest.raises(UsageError) as refused:
        load(tmp_path, **changes)

    assert str(refused.value).startswith(f"case {tmp_path / 'toy.json'}: {named}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[1", "\x00", "[" * 100_000])
def test_a_file_that_is_not_json_is_refused(tmp_path, text):
    with pytest.raises(UsageError, match="not JSON"):
        RecordedCase.load(write(tmp_path, text))


@pytest.mark.parametrize("text", ["[]", "5", "null", '"x"'])
def test_a_document_that_is_no_object_is_refused(tmp_path, text):
    with pytest.raises(UsageError, match="a case is a JSON object"):
        RecordedCase.load(write(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        RecordedCase.load(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="cannot be read"):
        RecordedCase.load(tmp_path)

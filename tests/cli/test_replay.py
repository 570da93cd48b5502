"""`phasemeter replay`, as a process would see it: output, exit status, one line for bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from phasemeter.cli import main

STREAMS = Path(__file__).parents[1] / "streams"
NAME = "vllm-running-usage-many-tokens-per-chunk"
CASE = STREAMS / f"{NAME}.json"


@pytest.fixture
def replay(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["replay", *map(str, arguments)])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return call


def write_case(folder, name, **changes):
    path = folder / f"{name}.json"
    path.write_text(json.dumps(json.loads(CASE.read_text()) | {"name": name} | changes))
    return path


def test_one_case_prints_exactly_the_fields_that_it_expects(replay):
    status, out, err = replay(CASE, "--json")

    measured = json.loads(out)
    expect = json.loads(CASE.read_text())["expect"]
    assert {name: measured[name] for name in expect} == expect
    assert set(measured) - set(expect) == {"headers_ms", "choices"}
    assert (status, err) == (0, "")


def test_a_folder_prints_one_object_by_case_name(replay):
    status, out, err = replay(STREAMS, "--json")

    assert set(json.loads(out)) == {path.stem for path in STREAMS.glob("*.json")}
    assert (status, err) == (0, "")


def test_a_folder_of_one_case_is_still_an_object_by_name(replay, tmp_path):
    write_case(tmp_path, "only")

    assert list(json.loads(replay(tmp_path, "--json")[1])) == ["only"]


def test_without_json_each_case_is_a_line_and_the_last_one_sums_up(replay):
    status, out, err = replay(CASE)

    assert out.splitlines() == [f"right  {NAME}  ok", "1 of 1 right"]
    assert (status, err) == (0, "")


def test_only_cases_of_the_dialects_asked_for_are_run(replay):
    status, out, _ = replay(STREAMS, "--dialect", "openai.completions", "--json")

    assert status == 0
    assert all(name.startswith("completions-") for name in json.loads(out))


def test_a_wrong_case_ends_with_status_1_and_says_what_differs(replay, tmp_path):
    path = write_case(tmp_path, "wrong", expect={"first_token_ms": 1.0, "outcome": "ok"})

    status, out, err = replay(path)
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "WRONG  wrong  ok",
        "  wrong: first_token_ms: 221.5, expected 1.0",
        "0 of 1 right",
    ]

    status, out, err = replay(path, "--json")
    assert status == 1
    assert json.loads(out)["first_token_ms"] == 221.5
    assert err.strip() == "wrong: first_token_ms: 221.5, expected 1.0"


def test_a_case_that_expects_nothing_cannot_be_wrong(replay, tmp_path):
    assert replay(write_case(tmp_path, "free", expect=None))[0] == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dialect": "nope"}, "dialect: 'nope' is not known; accepted: openai.chat"),
        ({"status": None}, "status: a whole number is accepted"),
        ({"headers": {"content-encoding": []}}, "headers.content-encoding: text is accepted"),
        ({"reads": [[1e999, "x"]]}, "reads[0]: a time in ms is accepted"),
        ({"end": {"t_ms": 1, "how": "?"}}, "end.how: '?' is not known"),
        ({"expect": "ok"}, "expect: an object is accepted"),
    ],
)
def test_a_bad_case_ends_with_status_2_and_one_line(replay, tmp_path, changes, said):
    status, out, err = replay(write_case(tmp_path, "bad", **changes))

    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_files_that_are_no_cases_end_with_status_2_and_one_line(replay, tmp_path):
    (tmp_path / "text.json").write_text("not JSON\n")
    (tmp_path / "binary.json").write_bytes(b"\xff\x00")
    empty = tmp_path / "empty"
    empty.mkdir()

    for arguments, said in (
        ([tmp_path / "text.json"], "not JSON"),
        ([tmp_path / "binary.json"], "not JSON"),
        ([tmp_path / "absent.json"], "cannot be read"),
        ([empty], "no case file there"),
        ([CASE, "--dialect", "nope"], "dialect: 'nope' is not known"),
        ([], "Missing argument"),
    ):
        status, out, err = replay(*arguments)

        assert (status, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def test_as_a_process_it_exits_with_its_status_and_without_a_traceback(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    command = [sys.executable, "-c", "from phasemeter.cli import main; main()", "replay", str(bad)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("phasemeter: case ")
    assert done.stderr.count("\n") == 1

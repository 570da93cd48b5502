import json

import numpy as np

from phasemeter.lab.engine import StepTruth
from phasemeter.lab.request import PrefillStep, Request, Sampling
from phasemeter.lab.truth import RequestTruth, TruthLog


def make_truth(request_id="a"):
    request = Request(request_id, np.zeros(4, dtype=np.int32), Sampling(), print, received_ns=10)
    request.scheduled_ns = 11
    request.prefill_steps.append(PrefillStep(11, 12, 4))
    return RequestTruth(request, [], 20, "cancelled", "both")


def test_unknown_instants_are_null():
    """A request cancelled before its first token has no first token, and not one at 0."""
    line = json.loads(make_truth().to_json())

    assert line == {
        "request_id": "a",
        "received_ns": 10,
        "scheduled_ns": 11,
        "kv_pulled_ns": None,
        "first_token_ns": None,
        "emit_ns": [],
        "finished_ns": 20,
        "prompt_tokens": 4,
        "output_tokens": 0,
        "outcome": "cancelled",
        "role": "both",
        "prefill_steps": [[11, 12, 4]],
    }


def test_the_file_is_appended_to_line_by_line(tmp_path):
    """A second process goes on where the first ended; each line is there at once."""
    path = tmp_path / "truth.jsonl"
    for request_id in ("a", "b"):
        log = TruthLog(path)
        log.add_request(make_truth(request_id))
        assert path.read_text().endswith(f"{make_truth(request_id).to_json()}\n")
        log.close()

    assert [json.loads(line)["request_id"] for line in path.read_text().splitlines()] == ["a", "b"]


def test_lines_are_served_oldest_first():
    """Requests and steps as JSON lines."""
    log = TruthLog(None)
    log.add_request(make_truth("a"))
    log.add_request(make_truth("b"))
    log.add_step(StepTruth(1, 2, 3, 4))

    assert [json.loads(line)["request_id"] for line in log.request_lines().splitlines()] == [
        "a",
        "b",
    ]
    assert json.loads(log.step_lines()) == {
        "start_ns": 1,
        "end_ns": 2,
        "prefill_tokens": 3,
        "decode_tokens": 4,
        "role": "both",
    }

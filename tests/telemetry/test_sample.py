"""A sample is the same after it has been a line; a line that is none is refused."""

import json

import pytest

from phasemeter.telemetry.sample import ServerSample, parse_sample

SAMPLE = ServerSample(
    t_ns=12,
    arm="separated",
    condition="ramp",
    repeat=3,
    moment="during",
    role="decode",
    instance=1,
    users=8,
    flavour="vllm",
    values={"prompt_tokens": 7.0, "running_requests": 0.0},
)


@pytest.mark.parametrize(
    "sample",
    [SAMPLE, ServerSample(1, "load", "load", 1, "start", "both", 0, reason="it has none")],
)
def test_a_sample_survives_its_line(sample):
    assert parse_sample(json.loads(json.dumps(sample.to_json()))) == sample


def test_signals_of_a_later_version_are_passed_over():
    document = {**SAMPLE.to_json(), "values": {"prompt_tokens": 7, "something_new": 1}}

    assert parse_sample(document).values == {"prompt_tokens": 7.0}


@pytest.mark.parametrize(
    "changed", [{"moment": "later"}, {"role": "idle"}, {"values": 3}, {"t_ns": "soon"}]
)
def test_a_line_that_is_no_sample_is_refused(changed):
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse_sample({**SAMPLE.to_json(), **changed})

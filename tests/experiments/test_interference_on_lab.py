"""The controls on engines that really compute; `python -m benchmarks.negative_controls` runs 20 of each."""

import pytest

from benchmarks.negative_controls import CONTROLS, outcomes

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", ["one_token", "full_slots", "one_slot"])
def test_a_negative_control_comes_out_as_it_must(name, tmp_path):
    """What the engine knows of each prompt says that the control is what it is meant to be."""
    for one in outcomes(CONTROLS[name], 2, tmp_path):
        assert one.finding.verdict.kind == CONTROLS[name].expected, one.finding.verdict.text
        assert (one.truly_overlapped > 0) == (name == "one_token")


def test_prompts_that_are_read_whole_interfere(tmp_path):
    """A busy machine may let too few prompts in to tell, which is `invalid`; `none` would be false."""
    for one in outcomes(CONTROLS["long_prompts"], 2, tmp_path):
        if one.truly_overlapped >= 8:
            assert one.finding.verdict.kind == "interference", one.finding.verdict.text
        else:
            assert one.finding.verdict.kind != "none", one.finding.verdict.text

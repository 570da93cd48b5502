"""The controls on engines that really compute; `python -m benchmarks.negative_controls` runs 20 of each."""

import pytest

from benchmarks.negative_controls import CONTROLS, outcomes

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def test_prompts_of_one_token_do_not_interfere(tmp_path):
    """A machine that stands still now and then may leave it undecided, which is `invalid`."""
    for one in outcomes(CONTROLS["one_token"], 1, tmp_path):
        gaps = one.gaps_before_ms
        accepted = {"none"} if gaps.p99 < 5 * gaps.p50 else {"none", "invalid"}
        assert one.finding.verdict.kind in accepted, one
        assert one.truly_overlapped > 0


@pytest.mark.parametrize("name", ["full_slots", "one_slot"])
def test_full_slots_leave_nothing_to_say(name, tmp_path):
    """What the engine knows of each prompt says that none was read beside a stream."""
    for one in outcomes(CONTROLS[name], 1, tmp_path):
        assert one.finding.verdict.kind == "invalid", one.finding.verdict.text
        assert one.truly_overlapped == 0


def test_prompts_that_are_read_whole_interfere(tmp_path):
    """A busy machine may let too few prompts in to tell, which is `invalid`; `none` would be false."""
    for one in outcomes(CONTROLS["long_prompts"], 1, tmp_path):
        if one.truly_overlapped >= 8:
            assert one.finding.verdict.kind == "interference", one.finding.verdict.text
        else:
            assert one.finding.verdict.kind != "none", one.finding.verdict.text

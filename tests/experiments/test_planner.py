"""What the planner finds in runs whose rates are known by construction."""

import json

import pytest

from phasemeter.analysis.pd_ratio import Shape
from phasemeter.analysis.records import load_run
from phasemeter.core.errors import UsageError
from phasemeter.experiments.planner import PlannerRecords, analyse
from tests.experiments.planner_factory import settings_with, write_planner_run


@pytest.fixture(scope="module")
def finding(tmp_path_factory):
    return analyse(load_run(write_planner_run(tmp_path_factory.mktemp("run") / "a")))


def test_each_phase_alone(finding):
    """1,000 prompt tokens per second are 10 requests; four streams of 10 ms a step are 20."""
    assert finding.prefill.users == 1
    assert finding.prefill.tokens_per_s.value == pytest.approx(1_000, rel=0.01)
    assert finding.prefill.requests_per_s.value == pytest.approx(10, rel=0.01)
    assert finding.decode.users == 4
    assert finding.decode.tokens_per_s.value == pytest.approx(400, rel=0.01)
    assert finding.decode.requests_per_s.value == pytest.approx(20, rel=0.01)
    assert finding.decode.step_ms == pytest.approx(10, rel=0.01)
    assert finding.decode.context_tokens == pytest.approx(100 + 79 / 2)


def test_predictions_and_what_was_measured_beside_them(finding):
    """1P1D: min(10, 20). Two mixed, whose first token comes with the prompt: 2 / (1/10 + 0.95/20)."""
    split, mixed = finding.predictions
    assert (split.shape.name, split.limited_by) == ("1P1D", "prefill")
    assert split.requests_per_s.value == pytest.approx(10, rel=0.01)
    assert mixed.requests_per_s.value == pytest.approx(2 / (0.1 + 0.95 / 20), rel=0.01)
    assert finding.best is split
    assert finding.matched.value == pytest.approx(2, rel=0.01)

    measured = {one.arm: one for one in finding.measured}
    assert measured["mixed"].requests_per_s.value == pytest.approx(10, rel=0.01)
    assert measured["separated"].requests_per_s.value == pytest.approx(9, rel=0.01)
    assert measured["separated"].ratio.value == pytest.approx(0.9, rel=0.02)
    lo, hi = measured["separated"].ratio.ci95
    assert 0.85 < lo <= measured["separated"].ratio.value <= hi < 0.95
    assert measured["mixed"].output_tokens_per_s.value == pytest.approx(200, rel=0.02)


def test_slots_that_limit_decode_are_told(finding):
    """Eight streams were tried, four decoded at a time, and two had brought half as much as four."""
    (told,) = [one for one in finding.warnings if "slots" in one]
    assert "of 8 streams at most 4 decoded at a time" in told
    assert "its rate still rose there" in told
    assert [point.users for point in finding.curves["decode"]] == [1, 2, 4]


def test_the_document_holds_every_figure_with_its_interval(finding):
    document = json.loads(json.dumps(finding.to_json(), allow_nan=False))

    assert document["gpus"] == 2
    plan = document["predicted"]["1P1D"]
    assert plan["requests_per_s_per_gpu"] == pytest.approx(5, rel=0.01)
    assert plan["output_tokens_per_s"] == pytest.approx(200, rel=0.01)
    lo, hi = plan["requests_per_s"]["ci95"]
    assert lo <= plan["requests_per_s"]["value"] <= hi
    assert document["measured"]["separated"]["topology"] == "1P1D"
    assert document["best"] == {"topology": "1P1D", "share_of_draws": 1.0}


def test_the_searches_are_not_what_rates_come_from(tmp_path):
    """Cut off after the searches: they are shown, and nothing is predicted from them."""
    run = load_run(write_planner_run(tmp_path / "a", keep=10))
    finding = analyse(run)

    assert not finding.is_complete
    assert finding.prefill is finding.decode is finding.best is None
    assert finding.predictions == finding.measured == ()
    assert [level.users for level in PlannerRecords(run).levels("isolated", "prefill")] == [1, 2]
    json.dumps(finding.to_json())


def test_a_run_cut_off_before_anything_has_a_finding(tmp_path):
    assert not analyse(load_run(write_planner_run(tmp_path / "a", keep=0))).is_complete


def test_elastic_instances_are_predicted_and_others_not(tmp_path):
    """A pool in which some instances have both roles and others one has no prediction."""
    shapes = {"elastic": Shape("elastic", 2, 2), "odd": None}
    finding = analyse(load_run(write_planner_run(tmp_path / "a", shapes=shapes)))

    measured = {one.arm: one for one in finding.measured}
    assert measured["elastic"].prediction.requests_per_s.value == pytest.approx(
        2 / (0.1 + 0.05), rel=0.01
    )
    assert measured["odd"].requests_per_s.value == pytest.approx(8, rel=0.01)
    assert measured["odd"].prediction is measured["odd"].ratio is None


def test_a_context_other_than_the_mixs_is_told(tmp_path):
    finding = analyse(load_run(write_planner_run(tmp_path / "a")))

    assert any("mean context of 140 tokens, the mix has 110" in one for one in finding.warnings)


def test_a_search_that_ended_at_its_limit_is_told(tmp_path):
    settings = settings_with(most_users=4)
    finding = analyse(load_run(write_planner_run(tmp_path / "a", settings=settings)))

    assert not any("more were not tried" in one and "prefill" in one for one in finding.warnings)
    assert any(one.startswith("decode alone: 4 users brought 5%") for one in finding.warnings)


def test_a_manifest_without_a_plan_is_refused(tmp_path):
    folder = write_planner_run(tmp_path / "a", keep=1)
    manifest = json.loads((folder / "run.json").read_text())
    del manifest["plan"]["shapes"]
    (folder / "run.json").write_text(json.dumps(manifest))

    with pytest.raises(UsageError, match=r"run\.json does not say what was planned for"):
        analyse(load_run(folder))

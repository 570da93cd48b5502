"""The JSON of a finding."""

import json

from phasemeter.analysis.finding import Arm, Exposure, Factor, Finding, Verdict
from phasemeter.analysis.shape import RequestCounts, Throughput

COUNTS = RequestCounts(
    issued=1, ok=1, error=0, truncated=0, empty=0, cancelled=0, abandoned=0, in_flight=0
)


def test_a_finding_is_told_by_names():
    """Factors and arms are objects keyed by name; intervals are pairs or null."""
    finding = Finding(
        verdict=Verdict("interference", "Others stalled."),
        factors=(
            Factor("mixed.inject.background.gap_p99", 12.5, (10.0, 15.0), "inject", "baseline"),
            Factor("separated.inject.background.gap_p99", None, None, "inject", "baseline"),
        ),
        arms=(
            Arm(
                name="mixed/inject",
                topology="mixed",
                condition="inject",
                gpus=2,
                requests=COUNTS,
                metrics={},
                classes={},
                throughput=Throughput(whole=None, steady=None, tokens_from="unknown"),
            ),
        ),
        exposures=(Exposure("mixed", 3000, 350.0, 5, 9),),
        notes=("Two repeats only.",),
    )

    document = json.loads(json.dumps(finding.to_json(), allow_nan=False))

    assert document["verdict"] == {"kind": "interference", "text": "Others stalled."}
    assert document["factors"]["mixed.inject.background.gap_p99"] == {
        "value": 12.5,
        "ci95": [10.0, 15.0],
        "of": "inject",
        "against": "baseline",
    }
    assert document["factors"]["separated.inject.background.gap_p99"]["ci95"] is None
    assert document["arms"]["mixed/inject"]["gpus"] == 2
    assert document["arms"]["mixed/inject"]["requests"]["ok"] == 1
    assert document["exposures"][0]["prompt_tokens"] == 3000

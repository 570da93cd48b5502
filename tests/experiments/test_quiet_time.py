"""Quiet time is what no injection stretched, cut into whole spans."""

import numpy as np
import pytest

from benchmarks.simulated_engine import Engine, simulate
from phasemeter.core.clock import NS_PER_MS
from phasemeter.experiments.exposure import injections_of
from phasemeter.experiments.interference import analyse
from phasemeter.experiments.interference_records import InterferenceRecords
from phasemeter.experiments.quiet_time import spans_before, spans_between

SPAN_NS = 40 * NS_PER_MS


@pytest.fixture(scope="module")
def inject_run():
    """Steps of 10 ms, 11.6 as a stream begins; 12 prompts of 256 and 512 tokens add 51.2 and 102.4."""
    records = InterferenceRecords(simulate(Engine(drift=0.0, hiccup_rate=0.0), 1, repeats=1))
    (found,) = records.inject_runs("mixed")
    return found


def test_no_gap_that_a_prompt_stretched_is_in_a_span_between_injections(inject_run):
    blocks = spans_between(inject_run, "0", injections_of(inject_run), SPAN_NS)

    spans = [span for block in blocks for span in block]
    assert max(int(span.max()) for span in spans) < 12 * NS_PER_MS
    # 6.5 s of injection and recovery; 12 prompts took 0.1 s each, and each time the rest is cut off.
    assert 90 < len(spans) < 130


def test_spans_before_fill_the_baseline(inject_run):
    blocks = spans_before(inject_run, "0", SPAN_NS)

    assert sum(map(len, blocks)) == 100
    assert 8 <= len(blocks) <= 9  # 4 s in blocks of half a second
    assert np.concatenate([span for block in blocks for span in block]).max() < 12 * NS_PER_MS


def test_without_a_phase_or_streams_there_are_no_spans(inject_run):
    assert spans_before(inject_run, "elsewhere", SPAN_NS) == []
    assert spans_between(inject_run, "elsewhere", [], SPAN_NS) == []
    inject_run = type(inject_run)("mixed", 1, 4, {}, inject_run.background, inject_run.injected)
    assert spans_before(inject_run, "0", SPAN_NS) == []
    assert spans_between(inject_run, "0", [], SPAN_NS) == []


def test_a_cell_tells_where_its_undisturbed_time_lay():
    def where(**settings):
        return {cell.undisturbed for cell in analyse(simulate(Engine(), 1, **settings)).cells}

    assert where() == {"between"}
    assert where(injections_per_s=12.0, inject_s=3.0) == {"before"}  # one ends as the next begins
    assert where(injections_per_s=12.0, inject_s=3.0, baseline_s=0.0) == {None}

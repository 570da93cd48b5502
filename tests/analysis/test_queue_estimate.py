"""The queue's bounds by hand: engines whose steps are known, requests that waited a known time."""

from dataclasses import replace

import pytest

from phasemeter.analysis.calibration import Calibration, PromptLength
from phasemeter.analysis.chunks import TokenBudget
from phasemeter.analysis.engine_steps import EngineSteps
from phasemeter.analysis.queue_estimate import queue_bounds, summarise_queues
from phasemeter.analysis.steps import Refusal, reconstruct
from phasemeter.analysis.ttft_curve import TtftCurve
from phasemeter.core.timeline import Leg, Outcome
from tests.analysis.run_factory import MS
from tests.analysis.stepping import PaperEngine

CURVE = TtftCurve(base_ms=5.0, per_token_ms=0.1)
BUDGET = TokenBudget(256, 256, 5, 5)
CALIBRATION = Calibration(
    typical=CURVE,
    fastest=CURVE,
    fit_error_ms=1.0,
    prompts=(PromptLength(100, 5, 15.0, 15.0, 15.0), PromptLength(1000, 5, 105.0, 105.0, 105.0)),
    token_budget=BUDGET,
)


def engine_of(paper, queue_ms=None, timelines=None):
    made = paper.timelines() if timelines is None else timelines
    told = {} if queue_ms is None else {"queue_time_ms": queue_ms}
    made = [replace(one, server=told) if one.tags["class"] == "injected" else one for one in made]
    return EngineSteps("", "0", made, reconstruct(made), (), Refusal("not asked for"))


def waited(steps, *, tokens=1000):
    """A prompt sent in the middle of a step that waits for so many whole steps more; jitter-free."""
    paper = PaperEngine(streams=4, budget=256, decode_ms=10.0, token_ms=0.1, jitter_ms=0.0)
    paper.decode(30)
    sent_ms = paper.now_ms + 4.0
    paper.decode(1 + steps)
    begun_ms = paper.now_ms
    left = tokens
    while left:
        chunk = min(left, 252)
        paper._step(chunk)
        left -= chunk
    paper.prompts.append(("p0", tokens, sent_ms, paper.now_ms))
    paper.decode(30)
    return paper, begun_ms - sent_ms


def the_bounds(engine, calibration=CALIBRATION):
    (one,) = [b for b in queue_bounds([engine], calibration) if b.class_name == "injected"]
    return one


def test_a_prompt_that_waited_for_twenty_steps():
    paper, queue_ms = waited(20)
    assert queue_ms == pytest.approx(206.0)

    one = the_bounds(engine_of(paper, queue_ms))

    # Sent 4 ms into a step and 5 ms on the way: seen at its end, 6 ms later. Four chunks, and perhaps one
    # step more that another prompt left a little of: 200 - 10 ms.
    assert one.lower_ns / MS == pytest.approx(190.0)
    # The chunks' first step began where the step before ended, or a usual step of 10 ms later.
    assert one.upper_ns / MS == pytest.approx(216.0)
    assert one.ttft_ns / MS == pytest.approx(206 + 4 * 10 + 100)
    assert one.basis == "steps"
    assert one.holds_told


def test_a_prompt_that_did_not_wait():
    paper, queue_ms = waited(0)
    one = the_bounds(engine_of(paper, queue_ms))

    assert one.lower_ns == 0
    assert one.upper_ns / MS == pytest.approx(16.0)
    assert one.holds_told  # the 6 ms of the step under way


def test_without_steps_the_excess_is_the_upper_bound():
    paper, queue_ms = waited(20)
    prompt = [one for one in paper.timelines() if one.tags["class"] == "injected"]

    one = the_bounds(engine_of(paper, queue_ms, prompt))

    assert (one.lower_ns, one.basis) == (0, "none")
    # 346 ms, less the 105 ms of the idle server, plus what the curve is off by.
    assert one.upper_ns / MS == pytest.approx(346 - 105 + 1)


def test_without_a_budget_there_is_no_lower_bound():
    paper, queue_ms = waited(20)
    one = the_bounds(engine_of(paper, queue_ms), replace(CALIBRATION, token_budget=None))

    assert (one.lower_ns, one.basis) == (0, "none")
    # At least the step of the first token, 244 tokens in 34.4 ms, was the prompt's own.
    assert one.upper_ns / MS == pytest.approx(min(346 - 104, 346 - 34.4 + 10))


def test_a_prompt_that_is_never_cut_has_narrow_bounds():
    paper = PaperEngine(streams=4, budget=100_000, decode_ms=10.0, token_ms=0.1, jitter_ms=0.0)
    paper.decode(30)
    sent_ms = paper.now_ms + 4.0
    paper.decode(21)
    paper._step(1000)
    paper.prompts.append(("p0", 1000, sent_ms, paper.now_ms))
    paper.decode(30)
    uncut = replace(CALIBRATION, token_budget=TokenBudget(1004, None, 3, 3))

    one = the_bounds(engine_of(paper, 206.0), uncut)

    assert one.lower_ns / MS == pytest.approx(200.0)
    assert one.upper_ns / MS == pytest.approx(206 + 110 - 104)  # the excess
    assert one.holds_told


def test_what_is_not_known_is_left_out():
    paper, _ = waited(3)
    made = paper.timelines()
    prompt = made[-1]
    usage = prompt.usage
    for changed in (
        replace(prompt, usage=replace(usage, input_tokens=None)),
        replace(prompt, sent_ns=None),
        replace(prompt, outcome=Outcome.ERROR),
        replace(prompt, legs=(Leg("prefill", 0, 0, 0),)),
    ):
        bounds = queue_bounds([engine_of(paper, 1.0, [*made[:-1], changed])], CALIBRATION)
        assert not [one for one in bounds if one.class_name == "injected"]


def test_the_summary_counts_what_the_server_told():
    within = the_bounds(engine_of(*waited(20)))
    outside = the_bounds(engine_of(waited(20)[0], 300.0))
    silent = the_bounds(engine_of(waited(20)[0]))

    summary = summarise_queues([within, outside, silent])

    assert (summary["server_told"], summary["server_within"]) == (2, 1)
    one = summary["classes"]["injected"]
    assert (one["requests"], one["with_steps"]) == (3, 3)
    assert one["lower"]["p50"] == pytest.approx(190.0)
    assert one["upper"]["max"] == pytest.approx(216.0)
    assert one["width_share_p50"] == pytest.approx(26 / 346)


def test_a_calibration_comes_back_from_its_json():
    assert Calibration.from_json(CALIBRATION.to_json()) == CALIBRATION

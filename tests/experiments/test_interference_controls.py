"""Verdicts that must come out every time, on engines that are simulated step by step."""

from dataclasses import replace

import pytest

from benchmarks.simulated_engine import Engine, simulate
from phasemeter.experiments.interference import analyse

SEEDS = range(20)
SHORT = {"baseline_s": 3.0, "inject_s": 5.0, "repeats": 1}
ROUGH = Engine(drift=0.2, memory=0.97, hiccup_rate=0.01)


def verdicts(engine, **settings):
    return [analyse(simulate(engine, seed, **SHORT, **settings)).verdict for seed in SEEDS]


@pytest.mark.parametrize("engine", [Engine(), ROUGH], ids=["steady", "rough"])
def test_prompts_of_one_token_do_not_interfere(engine):
    """Their step is as long as any other, however the machine drifts and stutters."""
    assert {one.kind for one in verdicts(engine, prompt_tokens=(1,))} == {"none"}


def test_streams_that_fill_all_slots_leave_nothing_to_say():
    """Each prompt waits beside all the streams, and is read when they have gone."""
    engine = Engine(slots=4, background_tokens=4_000)

    for verdict in verdicts(engine):
        assert verdict.kind == "invalid"
        assert "none of 10 injections on mixed overlapped a background stream" in verdict.text
        assert "never more than 4 streams decoded at once" in verdict.text
        assert "slots look full" in verdict.text


def test_prompts_that_are_let_in_between_streams_leave_nothing_to_say():
    """One slot: first tokens do come while prompts are injected, but no stream decodes then."""
    engine = Engine(users=1, slots=1, background_tokens=60)

    assert {one.kind for one in verdicts(engine)} == {"invalid"}


@pytest.mark.parametrize("engine", [Engine(), ROUGH], ids=["steady", "rough"])
def test_prompts_that_are_read_whole_always_interfere(engine):
    """100 tokens take twice as long as a step."""
    assert {one.kind for one in verdicts(engine, prompt_tokens=(100,))} == {"interference"}


def test_slots_that_come_free_beside_other_streams_are_real_overlap():
    """Full slots with short answers: a prompt gets the slot of one stream and stops the three others."""
    engine = Engine(slots=4, background_tokens=60)

    found = analyse(simulate(engine, 1, **SHORT))

    assert found.verdict.kind == "interference"
    assert found.effects[0].most_streams == 4


def test_interference_by_some_lengths_only_is_not_diluted_by_the_others():
    """One length in four reaches the streams, as where a router sends the others elsewhere."""
    run = simulate(Engine(), 3, prompt_tokens=(1, 2, 3, 200), inject_s=12.0, repeats=2)

    verdict = analyse(run).verdict

    assert verdict.kind == "interference"
    assert "for prompts of 200 tokens" in verdict.text


def test_too_short_a_baseline_is_invalid_and_not_none():
    run = simulate(Engine(), 1, baseline_s=0.3, repeats=1)

    verdict = analyse(run).verdict

    assert verdict.kind == "invalid"
    assert "too little undisturbed time" in verdict.text


def test_a_handful_of_injections_is_needed():
    run = simulate(Engine(), 1, inject_s=2.0, repeats=1)

    assert "at least 5 are needed" in analyse(run).verdict.text


def test_requests_that_the_end_cut_off_do_not_hide_why():
    """Prompts that never got a slot are cancelled at the end: the reason is the slots."""
    run = simulate(Engine(slots=4, background_tokens=4_000), 1, **SHORT)
    cut = tuple(
        replace(one, outcome="cancelled", events=()) if one.tags["class"] == "injected" else one
        for one in run.timelines
    )

    verdict = analyse(replace(run, timelines=cut)).verdict

    assert verdict.kind == "invalid"
    assert "no injected prompt was answered" in verdict.text
    assert "slots look full" in verdict.text

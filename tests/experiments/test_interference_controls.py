"""Verdicts that must come out every time, on engines that are simulated step by step."""

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.simulated_engine import Engine, simulate
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import TokenEvent
from phasemeter.experiments.interference import analyse

SEEDS = range(20)
SHORT = {"baseline_s": 3.0, "inject_s": 5.0, "repeats": 1}
ROUGH = Engine(drift=0.2, memory=0.97, hiccup_rate=0.01)


def verdicts(engine, seeds=SEEDS, **settings):
    return [analyse(simulate(engine, seed, **SHORT, **settings)).verdict for seed in seeds]


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


@pytest.mark.parametrize("pace", [0.5, 2.0])
@pytest.mark.parametrize(("tokens", "kind"), [(1, "none"), (100, "interference")])
def test_an_engine_that_changes_its_pace_as_injection_begins_misleads_nobody(pace, tokens, kind):
    """Twice as slow or as fast than in the baseline: neither makes interference nor hides it."""
    engine = replace(ROUGH, pace=pace)

    assert {one.kind for one in verdicts(engine, range(8), prompt_tokens=(tokens,))} == {kind}


def test_an_engine_that_stands_still_now_and_then_makes_no_interference():
    """Half a second, about every second: what such a stop catches several prompts of counts once."""
    engine = Engine(step_ms=25.0, drift=0.3, hiccup_rate=0.03, hiccup_ms=500.0)

    kinds = Counter(one.kind for one in verdicts(engine, prompt_tokens=(1,), injections_per_s=4.0))

    assert kinds["interference"] == 0
    assert kinds["none"] >= 16  # others may be undecided


def test_a_change_of_pace_is_told():
    found = analyse(simulate(Engine(pace=2.0), 1, **SHORT))

    assert found.effects[0].pace == pytest.approx(2.0, rel=0.15)
    assert any("changed its pace by itself" in note for note in found.notes)
    steady = analyse(simulate(Engine(), 1, **SHORT))
    assert steady.effects[0].pace == pytest.approx(1.0, abs=0.1)
    assert not any("changed its pace" in note for note in steady.notes)


def test_what_is_above_the_limit_but_not_clearly_is_undecided_and_not_none():
    """Four prompts in seven stop the streams: the median of so few could be either."""
    run = simulate(Engine(drift=0.0, hiccup_rate=0.0), 1, prompt_tokens=(100, 1), inject_s=3.5)
    as_one = tuple(
        replace(one, tags=one.tags | {"prompt_tokens": "9"})
        if one.tags["class"] == "injected"
        else one
        for one in run.timelines
    )

    verdict = analyse(replace(run, timelines=as_one)).verdict

    assert verdict.kind == "invalid"
    assert "undecided" in verdict.text


def test_streams_that_are_read_in_the_step_of_a_prompt_did_not_decode_beside_it():
    """Two slots, two streams: both end at once, and the next one comes in together with the prompt."""
    ms = NS_PER_MS
    run = simulate(Engine(), 1, **SHORT)
    prompts = [one for one in run.timelines if one.tags["class"] == "injected"]
    stream = next(one for one in run.timelines if one.tags["class"] == "background")
    beside = tuple(
        replace(
            stream,
            request_id=f"beside-{one.request_id}",
            events=tuple(
                TokenEvent(one.events[0].t_ns + offset_ns, "content", 1, read)
                for read, offset_ns in enumerate((-ms // 10, 10 * ms, 20 * ms))
            ),
        )
        for one in prompts
    )

    found = analyse(replace(run, timelines=(*prompts, *beside)))

    assert [effect.overlapped for effect in found.effects] == [0]
    assert found.verdict.kind == "invalid"


def test_too_little_quiet_time_is_invalid_and_not_none():
    """A short baseline, and injections too close to each other for quiet time between them."""
    run = simulate(Engine(), 1, baseline_s=0.3, injections_per_s=9.0, inject_s=3.0, repeats=1)

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

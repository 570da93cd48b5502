"""What is made of the spans and metrics of other tools."""

import pytest

from benchmarks.comparison_page import comparison_text
from benchmarks.sdk_facts import (
    Seen,
    exit_word,
    first_times_s,
    gaps_of,
    is_told,
    late_s,
    output_tokens,
    surface_word,
    told,
)
from benchmarks.sdk_observed import MetricSeen, Observed, SpanSeen
from benchmarks.sdk_scenarios import EXITS, FIRST_TOKEN, SCENARIOS, SLOW

START_NS = 1_800_000_000_000_000_000
MS = 1_000_000


def span(status="UNSET", end_ms=100, root=True, events=(), **attributes):
    return SpanSeen(
        "chat m",
        root,
        START_NS,
        START_NS + end_ms * MS,
        status,
        {name.replace("__", "."): value for name, value in attributes.items()},
        [(name, START_NS + t_ms * MS) for name, t_ms in events],
    )


def observed(*spans, when="at once", metrics=(), sent_ms=100, got_ms=100, **fields):
    return Observed(
        spans=spans,
        when=when if spans else None,
        metrics=metrics,
        last_chunk_unix_ns=START_NS + got_ms * MS,
        sent_last_unix_ns=START_NS + sent_ms * MS,
        **fields,
    )


def exit_named(name):
    return next(one for one in EXITS if one.name == name)


def test_first_times_are_found_in_attributes_metrics_events_and_dates():
    one = observed(
        span(
            phasemeter__time_to_first_token=0.4,
            langfuse__observation__completion_start_time='"2027-01-15T08:00:00.250000Z"',
            events=[("new_token", 110), ("new_token", 400)],
        ),
        metrics=[MetricSeen("gen_ai.server.time_to_first_token", 2, 0.3)],
    )

    assert first_times_s(one) == pytest.approx(
        {
            "phasemeter.time_to_first_token": 0.4,
            "gen_ai.server.time_to_first_token": 0.15,
            "event `new_token`": 0.11,
            "langfuse.observation.completion_start_time": 0.25,
        }
    )


def test_nothing_reported_is_nothing():
    assert first_times_s(observed(span())) == {}
    assert gaps_of(observed(span())) is None
    assert output_tokens(observed(span())) is None


def test_gaps_are_the_mean_of_the_samples():
    name = "gen_ai.client.operation.time_per_output_chunk"
    gaps = gaps_of(observed(span(), metrics=[MetricSeen(name, 10, 0.5)]))

    assert (gaps.mean_ms, gaps.samples, gaps.coalesced) == (50.0, 10, None)


def test_chunks_that_came_together_are_told_without_any_sample():
    gaps = gaps_of(observed(span(phasemeter__coalesced_events=19)))

    assert (gaps.mean_ms, gaps.samples, gaps.coalesced) == (None, 0, 19)


def test_tokens_in_a_json_text_are_found():
    usage = '{"prompt_tokens": 5, "completion_tokens": 8}'

    assert output_tokens(observed(span(langfuse__observation__usage_details=usage))) == 8


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (observed(), "no span"),
        (observed(span()), "ok"),
        (observed(span("OK"), when="when collected"), "ok, when collected"),
        (observed(span("ERROR", error__type="timeout")), "error `timeout`"),
        (observed(span(), span("ERROR")), "error"),
        (observed(span("ERROR", root=False), span()), "ok"),
    ],
)
def test_an_exit_in_words(one, word):
    assert exit_word(one) == word


def test_an_error_told_as_success_is_not_told():
    reset, closed = exit_named("connection reset"), exit_named("close()")

    assert is_told(reset, observed(span("OK"))) is False
    assert is_told(reset, observed(span("ERROR"))) is True
    assert is_told(closed, observed(span("ERROR"))) is False
    assert is_told(closed, observed()) is False
    assert is_told(exit_named("break, then dropped"), observed()) is None


def test_a_span_that_ends_at_the_headers_is_no_span_of_the_stream():
    whole = observed(span(phasemeter__time_to_first_token=0.03))
    at_headers = observed(span(end_ms=20, gen_ai__response__time_to_first_chunk=0.02))

    assert surface_word(whole, whole) == "first token"
    assert surface_word(observed(span()), None) == "span"
    assert surface_word(at_headers, None) == "to the headers"
    assert surface_word(observed(), None) == "no span"


def test_a_call_that_went_otherwise_than_without_the_tool_is_told():
    bare = observed(chunks=8)

    assert surface_word(observed(span(), chunks=7), bare) == "changed: 7 chunks"
    assert surface_word(observed(span(), chunks=8, raised="E"), bare) == "changed: E"


def test_lateness_is_of_the_last_root():
    assert late_s(observed(span(end_ms=90), span(end_ms=400), got_ms=100)) == pytest.approx(0.3)
    assert late_s(observed()) is None


def seen():
    one = Seen("2026-01-02", "abc1234", {"tool": "1.2"}, {"tool": "as it comes"})
    one.baselines = {"bare": "bare", "tool": "bare"}
    for name, status in (("bare", None), ("tool", "OK")):
        for how in ("sync", "async"):
            for scenario in SCENARIOS:
                if how in scenario.hows:
                    spans = [] if status is None else [span(status)]
                    facts = {"isinstance": how == "sync"}
                    one.add(name, how, scenario.name, observed(*spans, chunks=3, facts=facts))
    return one


def test_exits_that_can_be_argued_are_not_counted():
    assert told(seen(), "tool", "sync") == (3, 6)
    assert told(seen(), "tool", "async") == (3, 7)


def test_it_is_kept_as_it_was(tmp_path):
    seen().save(tmp_path / "seen.json")
    found = Seen.load(tmp_path / "seen.json")

    assert found.get("tool", "sync", SLOW) == seen().get("tool", "sync", SLOW)
    assert found.tools == ["tool"]


def test_the_document_shows_every_tool():
    text = comparison_text(seen(), None)

    assert "| tool | 1.2 | as it comes |" in text
    assert "| tool | sync | nothing |" in text
    assert "| told as it was | 3 of 6 |" in text
    assert "| tool | sync only | no | no | no | no | yes |" in text


def test_scenarios_have_names_of_their_own():
    names = [scenario.name for scenario in SCENARIOS]

    assert len(set(names)) == len(names)
    assert FIRST_TOKEN in SCENARIOS

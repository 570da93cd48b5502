"""Writes docs/comparison.md from what the two comparisons of tracing SDKs measured.

Usage: python -m benchmarks.comparison_page FOLDER docs/comparison.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.sdk_costs import BUDGET_SHARE, Overhead, Spread, cheapest
from benchmarks.sdk_facts import (
    Gaps,
    Seen,
    exit_word,
    first_times_s,
    gaps_of,
    late_s,
    output_tokens,
    surface_word,
    told,
)
from benchmarks.sdk_observed import Observed
from benchmarks.sdk_scenarios import (
    EXITS,
    FAST,
    FIRST_CHUNK_MS,
    FIRST_TOKEN,
    FIRST_TOKEN_MS,
    GAP_MS,
    HOWS,
    PAUSE_MS,
    SLOW,
    SURFACES,
    TOKENS,
    USAGE,
)
from benchmarks.table import UNKNOWN, cell

_FEW, _MANY = 100, 2000
_FACTS = {
    "isinstance": "`isinstance(stream, Stream)`",
    "type": "exactly that class",
    "response": "`.response`",
    "close": "`.close()`",
    "with": "`with`",
}
_LINGERING = ("close()", "leaving `with`", "break, then dropped")


def write_comparison(folder: Path, path: Path) -> None:
    """Write the document from `sdk_comparison.json` and `sdk_overhead.json`, where they are.

    Raises:
        OSError: If it cannot be written.
    """
    seen_path, overhead_path = folder / "sdk_comparison.json", folder / "sdk_overhead.json"
    seen = Seen.load(seen_path) if seen_path.is_file() else None
    overhead = Overhead.load(overhead_path) if overhead_path.is_file() else None
    path.write_text(comparison_text(seen, overhead), encoding="utf-8")


def comparison_text(seen: Seen | None, overhead: Overhead | None) -> str:
    """Return the document."""
    parts = [_INTRODUCTION]
    if seen is not None:
        parts += [
            _setting(seen),
            _first_token(seen),
            _slow_consumer(seen),
            _exits(seen),
            _types(seen),
            _surfaces(seen),
            _tokens(seen),
        ]
    if overhead is not None:
        parts += [_costs(overhead), _holds(overhead), _budgets(overhead)]
    return "\n".join([*parts, _method(seen, overhead)])


_INTRODUCTION = """# Comparison with tracing SDKs

Written by `make bench-sdk` from its own results; do not edit.

Every tool gets the same answers from the same scripted server, through the openai client, in a virtual environment and a process of its own.
What is shown was measured; nothing is taken from documentation.
"""


def _setting(seen: Seen) -> str:
    rows = [[name, seen.versions.get(name, ""), seen.notes.get(name, "")] for name in seen.tools]
    missing = "".join(
        f"\n{name} is missing: {reason}.\n" for name, reason in seen.unavailable.items()
    )
    openai = seen.versions.get("bare", "unknown")
    return f"""Observed on {seen.date} at {seen.commit}; openai {openai} unless said otherwise.

{_table(["tool", "version", "setting"], rows)}
{missing}"""


def _first_token(seen: Seen) -> str:
    rows = []
    for name in seen.tools:
        for how in HOWS:
            observed = seen.get(name, how, FIRST_TOKEN)
            if observed is None:
                continue
            figures = first_times_s(observed)
            said = ", ".join(f"{_code(one)} {value:.3f}" for one, value in figures.items())
            rows.append([name, how, said or "nothing"])
    return f"""## First token

Headers and an empty role chunk after {FIRST_CHUNK_MS / 1000:.1f} s, the first token after {FIRST_TOKEN_MS / 1000:.1f} s, then {TOKENS} tokens {GAP_MS:.0f} ms apart.
A time to first *chunk* of {FIRST_CHUNK_MS / 1000:.1f} s is right, a time to first *token* of {FIRST_TOKEN_MS / 1000:.1f} s is. Figures in seconds, by the name under which they are reported:

{_table(["tool", "client", "reported"], rows)}
"""


def _slow_consumer(seen: Seen) -> str:
    rows = []
    for name in seen.tools:
        cells = [
            _gap_text(None if observed is None else gaps_of(observed))
            for scenario in (FAST, SLOW)
            for how in HOWS
            for observed in [seen.get(name, how, scenario)]
        ]
        rows.append([name, *cells])
    heads = ["tool", "fast, sync", "fast, async", "slow, sync", "slow, async"]
    return f"""## Gaps under a slow consumer

Chunks leave the server {GAP_MS:.0f} ms apart; the slow application works for {PAUSE_MS:.0f} ms on each of them.
Shown is the mean of what is recorded a chunk, in ms, and of how many samples. {GAP_MS:.0f} is the server, {PAUSE_MS:.0f} is the application.
"Together" are chunks that came in one read: their gap cannot be known, so it is counted and not recorded.
Gaps that the application caused are marked, and are in phasemeter's `gap_raw` alone.

{_table(heads, rows)}
"""


def _gap_text(gaps: Gaps | None) -> str:
    if gaps is None:
        return UNKNOWN
    mean = UNKNOWN if gaps.mean_ms is None else f"{gaps.mean_ms:.1f}"
    text = f"{mean} ({gaps.samples})"
    if gaps.coalesced:
        text += f", {gaps.coalesced} together"
    if gaps.consumer_limited:
        clean = "none" if gaps.clean_ms is None else f"{gaps.clean_ms:.1f}"
        text += (
            f", {gaps.consumer_limited} marked as the application's; median without those {clean}"
        )
    return text


def _exits(seen: Seen) -> str:
    text = """## Every way out of a stream

What the spans said: `error` with its `error.type`, or ok, or no span; and when they came, unless at once.
The last row counts the exits that were told as they were, among those where it cannot be argued: the errors as errors, the others not.
Leaving by an exception of one's own, dropping a stream, and a body that ends without a finish reason are shown and not counted.
"""
    for how in HOWS:
        rows = [
            [
                scenario.name,
                *(
                    UNKNOWN if observed is None else exit_word(observed)
                    for name in seen.tools
                    for observed in [seen.get(name, how, scenario)]
                ),
            ]
            for scenario in EXITS
            if how in scenario.hows
        ]
        counts = [told(seen, name, how) for name in seen.tools]
        rows.append(["told as it was", *(f"{right} of {count}" for right, count in counts)])
        text += f"\n{how.capitalize()}:\n\n{_table(['exit', *seen.tools], rows)}\n"
    rows = [
        [
            name,
            *(
                _late_text(seen.get(name, how, scenario))
                for scenario in EXITS
                if scenario.name in _LINGERING
                for how in HOWS
            ),
        ]
        for name in seen.tools
    ]
    heads = [f"{name}, {how}" for name in _LINGERING for how in HOWS]
    return f"""{text}
How long after the last chunk the span ends, in s, where the application stays in the stream for 0.3 s before it leaves; a span of the server's work ends near 0:

{_table(["tool", *heads], rows)}
"""


def _late_text(observed: Observed | None) -> str:
    late = None if observed is None else late_s(observed)
    return UNKNOWN if late is None else f"{late:+.2f}"


def _types(seen: Seen) -> str:
    rows = []
    for name in seen.tools:
        cells = []
        for fact in _FACTS:
            answers = [
                one.facts.get(fact)
                for how in HOWS
                if (one := seen.get(name, how, FAST)) is not None
            ]
            cells.append(_yes_no(answers))
        rows.append([name, *cells, _exceptions(seen, name)])
    return f"""## The client is still the client

What `create(stream=True)` returns, blocking and async, and whether the exceptions of all exits are those of the bare client.

{_table(["tool", *_FACTS.values(), "same exceptions"], rows)}
"""


def _yes_no(answers: Sequence[object]) -> str:
    if not answers:
        return UNKNOWN
    if all(answers):
        return "yes"
    return "async only" if answers[-1] else "sync only" if answers[0] else "no"


def _exceptions(seen: Seen, name: str) -> str:
    differing = [
        f"{scenario.name}: `{own.raised}`"
        for how in HOWS
        for scenario in EXITS
        if (own := seen.get(name, how, scenario)) is not None
        and (bare := seen.get(seen.baselines[name], how, scenario)) is not None
        and own.raised != bare.raised
    ]
    return "; ".join(dict.fromkeys(differing)) or "yes"


def _surfaces(seen: Seen) -> str:
    rows = []
    for scenario in SURFACES:
        cells = []
        for name in seen.tools:
            words = [
                surface_word(observed, seen.get(seen.baselines[name], how, scenario))
                for how in HOWS
                if (observed := seen.get(name, how, scenario)) is not None
            ]
            cells.append(" / ".join(dict.fromkeys(words)) or UNKNOWN)
        rows.append([scenario.name, *cells])
    return f"""## Surfaces

How much of a call is seen: a span with a time to first token or chunk, a span to the end without one, a span that ends at the headers, or no span. Two words where blocking and async differ.

{_table(["surface", *seen.tools], rows)}
"""


def _tokens(seen: Seen) -> str:
    rows = []
    for name in seen.tools:
        with_usage = seen.get(name, "sync", USAGE)
        without = seen.get(name, "sync", FAST)
        rows.append([name, _count(with_usage), _count(without)])
    return f"""## Tokens

Output tokens told. The server says 8 where usage is asked for, and nothing where it is not ({TOKENS} chunks with text were sent then).

{_table(["tool", "usage asked for", "not asked for"], rows)}
"""


def _count(observed: Observed | None) -> str:
    tokens = None if observed is None else output_tokens(observed)
    return UNKNOWN if tokens is None else str(tokens)


def _costs(overhead: Overhead) -> str:
    machine = overhead.machine
    text = f"""## CPU added to the openai client

Measured on {overhead.date} at {overhead.commit}: {machine["processor"]}, {machine["cores"]} cores, {machine["memory"]}, Linux {machine["kernel"]}, Python {machine["python"]}.
CPU time of the whole process, all threads, over the bare client's just before and after, us a chunk: median over {max((one.round for one in overhead.costs), default=0)} rounds, quartiles in brackets.
"A stream" is what does not grow with the chunks, from the two lengths.
"""
    for how in HOWS:
        rows = []
        for name in overhead.tools:
            few, many = (overhead.added_us(name, how, chunks) for chunks in (_FEW, _MANY))
            share = overhead.share_of_bare(name, how, _FEW)
            split = overhead.fixed_us(name, how, _FEW, _MANY)
            rows.append(
                [
                    name,
                    _spread(few),
                    _spread(many),
                    UNKNOWN if split is None else f"{split[1]:,.0f}",
                    UNKNOWN if share is None else f"{share * 100:+.0f} %",
                    _ratio(few, overhead.added_us("phasemeter", how, _FEW)),
                ]
            )
        bare = overhead.bare_us(how, _FEW)
        heads = [
            "tool",
            f"us a chunk, {_FEW} chunks",
            f"us a chunk, {_MANY:,} chunks",
            "us a stream",
            "of the bare client",
            "times phasemeter",
        ]
        text += f"\n{how.capitalize()}; the bare client takes {_spread(bare)} us a chunk:\n\n"
        text += _table(heads, rows, right=True) + "\n"
    notes = "".join(f"- {name}: {note}.\n" for name, note in overhead.notes.items() if note)
    missing = "".join(
        f"\n{name} is missing: {reason}.\n" for name, reason in overhead.unavailable.items()
    )
    return f"{text}\n{notes}{missing}"


def _holds(overhead: Overhead) -> str:
    rows = []
    for name in overhead.baselines:
        few, many = overhead.hold(name, _FEW), overhead.hold(name, _MANY)
        figures = [
            value
            for hold in (few, many)
            for value in ((None, None) if hold is None else (hold.end_ms, hold.end_max_ms))
        ]
        rows.append([name, *(cell(value, 2) for value in figures)])
    heads = ["tool", f"{_FEW} chunks", "worst", f"{_MANY:,} chunks", "worst"]
    return f"""## How long the event loop is held at a stream's end

The longest single callback from the last read until the loop had nothing left to do, ms of CPU: median and worst of several streams. What other streams of the process wait for.

{_table(heads, rows, right=True)}
"""


def _budgets(overhead: Overhead) -> str:
    rows = []
    for how in HOWS:
        share = overhead.share_of_bare("phasemeter", how, _FEW)
        percent = None if share is None else share * 100
        what = f"spans and HDR on, {_FEW} chunks, % of the bare client, {how}"
        rows.append((what, percent, BUDGET_SHARE * 100))
        own = overhead.added_us("phasemeter", how, _FEW)
        what = f"the same in us a chunk, {how}, as first planned"
        rows.append((what, _median(own), 5.0))
        figures = {name: overhead.added_us(name, how, _FEW) for name in overhead.tools}
        others = [name for name in overhead.records_chunks if not name.startswith("phasemeter")]
        rival = cheapest(others, figures)
        ours = _median(figures.get("phasemeter, metrics"))
        rows.append(
            (
                f"with a metric sample a chunk as well, {how}, at most that of {rival}",
                ours,
                None if rival is None else _median(figures[rival]),
            )
        )
    rows.append(("hot path, us a chunk", overhead.hot_path_us, 1.0))
    for name in ("phasemeter", "phasemeter, metrics"):
        hold = overhead.hold(name, _MANY)
        held = None if hold is None else hold.end_ms
        rows.append((f"loop held at the end of {_MANY:,} chunks, {name}, ms", held, 1.0))
    lines = [
        [what, cell(value, 2), cell(budget, 2), _is_met(value, budget)]
        for what, value, budget in rows
    ]
    return f"""## Budgets

{_table(["what", "measured", "budget", "met"], lines)}
{_floor(overhead)}"""


def _floor(overhead: Overhead) -> str:
    """Return what the budget leaves above the floor, or nothing where a figure is missing."""
    told = []
    for how in HOWS:
        least, spans, ours = (
            _median(overhead.added_us(name, how, _FEW))
            for name in ("floor", "floor, spans", "phasemeter")
        )
        if least is None or spans is None or ours is None:
            return ""
        told.append(
            f"{how} {least:.1f} us without spans and {spans:.1f} with them, "
            f"phasemeter {ours:.1f}, {ours - spans:.1f} above"
        )
    return f"""
The floor is no tool. It keeps the time of each read with its bytes, parses four of {_FEW + 4} events and, with spans, makes three through OpenTelemetry's SDK; it knows no framing, dialect, histogram, error or early end. Us a chunk of {_FEW}: {"; ".join(told)}.
"""


def _is_met(value: float | None, budget: float | None) -> str:
    if value is None or budget is None:
        return UNKNOWN
    return "yes" if value <= budget else "**no**"


def _method(seen: Seen | None, overhead: Overhead | None) -> str:
    text = "## How it was measured\n"
    if seen is not None:
        text += """
- The server is `phasemeter.testing.ScriptedServer` on loopback; every tool gets its answers on real sockets.
- A tool's process keeps one client. Spans go to an exporter that keeps them, metrics to a reader in memory; LangSmith's runs are taken where its uploader would take them.
- "When collected" means that the span came only as the stream object was collected, "with the next request" that it came as another one was sent.
"""
    if overhead is not None:
        text += """
- Cost: clients are connected over loopback to a server that sends one event every 0.7 ms, so that every tool does the same reads, one event each. What the kernel does for the client counts. phasemeter reads the sockets itself, and more cheaply than the client does; that is part of its figure, which may be below 0. How long the loop is held is measured over a network in memory.
- The processes take turns in every round; the added cost is the difference to the bare client just before and just after. A round has 10 streams of 100 chunks, every sixth one of 2,000 as well. All processes are started anew every three rounds: how one happens to lie in memory is worth 1 to 3 us a chunk for as long as it lives.
- Spans go through a BatchSpanProcessor to an exporter that drops them; what its thread takes is counted, what an exporter would take to serialise and send is not.
- phasemeter's and OpenTelemetry's rows come with and without metrics, since most tools record none for each chunk.
"""
    return f"""{text}
Again, on your machine: `make bench-sdk`.
"""


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool = False) -> str:
    rule = "---:" if right else "---"
    lines = [f"| {' | '.join(heads)} |", f"|---|{f'{rule}|' * (len(heads) - 1)}"]
    lines += (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join(lines)


def _code(name: str) -> str:
    return name if "`" in name else f"`{name}`"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return UNKNOWN
    return f"{spread.median:.1f} ({spread.low:.1f} to {spread.high:.1f})"


def _median(spread: Spread | None) -> float | None:
    return None if spread is None else spread.median


def _ratio(theirs: Spread | None, ours: Spread | None) -> str:
    if theirs is None or ours is None or ours.median <= 0:
        return UNKNOWN
    return f"{theirs.median / ours.median:.1f}"


if __name__ == "__main__":
    write_comparison(Path(sys.argv[1]), Path(sys.argv[2]))

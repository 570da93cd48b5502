"""The part of docs/accuracy.md on CPU time: what a token costs, and what it costs at least."""

from __future__ import annotations

from benchmarks.peers import FLOOR, FLOOR_RESTING, YARDSTICK
from benchmarks.results import Comparison, by_tool, summarise
from benchmarks.table import cell

_OURS = "phasemeter"


def cpu_section(comparison: Comparison) -> list[str]:
    """Return the section, or nothing where one of the four figures that it compares is missing."""
    groups = by_tool(comparison.rounds)
    names = (_OURS, YARDSTICK, FLOOR, FLOOR_RESTING)
    figures = {name: summarise(groups.get(name, [])) for name in names}
    cpu_us = {name: one["cpu_us_per_event"] for name, one in figures.items()}
    ours, aiohttp, floor, resting = (cpu_us[name] for name in names)
    parse = figures[FLOOR]["parse_us"]
    if ours is None or aiohttp is None or floor is None or resting is None or parse is None:
        return []
    lines = [
        "| client | CPU us a token | waits a token | gap p99 error ms |",
        "|---|---:|---:|---:|",
    ]
    for name in names:
        one = figures[name]
        waits, error = cell(one["waits_per_event"], 2), cell(one["gap_p99_error_ms"], 3)
        lines.append(f"| {name} | {cpu_us[name]:.1f} | {waits} | {error} |")
    half = aiohttp / 2
    table = "\n".join(lines)
    return [
        f"""## CPU time a token

{table}

- The floor waits with epoll, reads with `recvmsg` and the receive stamp, and keeps the bytes: {floor:.1f} us a token before anything is done with them. Parsing the JSON of each event once with Python's own module takes {parse:.1f} us more. Together these are {floor + parse:.1f} us; half of the aiohttp loop's is {half:.1f} us{_verdict(floor + parse, half)}
- What a client finds waiting when it comes late costs no wake-up of its own. The aiohttp loop pays for that in its times, which are read when it comes; kernel stamps do not depend on it. The floor that pauses 1 ms after each turn takes {resting:.1f} us, with the parsing {resting + parse:.1f} us{_verdict(resting + parse, half)}
- phasemeter does not pause. Segments that arrive on one connection during the pause are merged and keep the last one's stamp, so that a last token would be given the time of the end mark sent right after it. Of its {ours:.1f} us, {floor:.1f} are the floor's; the others are HTTP, framing, decoding, the records and the loop that sends on time.
{_at_rising_load(comparison)}"""
    ]


def _at_rising_load(comparison: Comparison) -> str:
    """Return the sentence on the ladder, where there was one."""
    runs = by_tool(comparison.ladder).get(_OURS, [])
    costs = [
        f"{cost:.0f} us at {users:,}"
        for users in sorted({run.users for run in runs})
        if (cost := summarise([run for run in runs if run.users == users])["cpu_us_per_event"])
    ]
    if not costs:
        return ""
    told = ", ".join(costs)
    return f"- The more streams, the fewer wake-ups a token, without any pause: {told} streams.\n"


def _verdict(least_us: float, half_us: float) -> str:
    if least_us > half_us:
        return ", which no Python client that does this can meet."
    return ", which leaves room."

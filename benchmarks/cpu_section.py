"""The part of docs/accuracy.md on CPU time: what a token costs, and what it costs at least."""

from __future__ import annotations

from benchmarks.peers import FLOOR, FLOOR_RESTING, YARDSTICK
from benchmarks.results import Comparison, by_tool, summarise
from benchmarks.table import cell

_OURS = "phasemeter"


def cpu_section(comparison: Comparison) -> list[str]:
    """Return the section, or nothing where a figure that it needs is missing."""
    groups = by_tool(comparison.rounds)
    names = (_OURS, YARDSTICK, FLOOR, FLOOR_RESTING)
    figures = {name: summarise(groups.get(name, [])) for name in names}
    cpu_us = {name: one["cpu_us_per_event"] for name, one in figures.items()}
    ours, aiohttp, floor, resting = (cpu_us[name] for name in names)
    parse, reading = (figures[FLOOR][name] for name in ("parse_us", "reading_us"))
    if ours is None or aiohttp is None or floor is None or resting is None:
        return []
    if parse is None or reading is None:
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

- The floor waits with epoll, reads with `recvmsg` and the receive stamp, and keeps the bytes: {floor:.1f} us a token before anything is done with them. phasemeter's reading of the same bytes (HTTP, framing, decoding, the record) takes {reading:.1f} us when it is repeated until warm; parsing their JSON once with Python's own module and doing nothing with it takes {parse:.1f} us. Floor and reading together are {floor + reading:.1f} us, half of the aiohttp loop's is {half:.1f} us: {_verdict(floor + reading, half)}
- The other {max(ours - floor - reading, 0):.1f} of phasemeter's {ours:.1f} us are the loop that sends on time and watches itself, and waking up: a client that finds one event at a time pays for a wake-up a token, and comes to cold caches. The table shows how often each went to wait. The aiohttp loop comes late and finds many events at a time; its stamps pay for that, kernel stamps would not.
- A pause of 1 ms after each turn, which kernel stamps would allow, takes the floor to {resting:.1f} us. phasemeter does not pause: segments that arrive on one connection meanwhile are merged and keep the last one's stamp, so that a last token would be given the time of the end mark sent right after it.
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
    left_us = half_us - least_us
    if left_us <= 0:
        return "the budget cannot be met, not even by a loop that costs nothing."
    return f"to meet the budget, all of the loop would have to cost {left_us:.1f} us a token."

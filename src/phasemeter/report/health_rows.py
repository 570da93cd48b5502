"""How well the measuring went, as rows of text that the terminal and the page both show."""

from __future__ import annotations

from phasemeter.analysis.shape import Health
from phasemeter.report import formatting

_LAG_TITLES = {
    "loop_lag": "a turn of the client's loop",
    "wake_lag": "the loop woke late",
    "read_lag": "arrival to read",
    "parse_lag": "end of a response to its decoding",
    "send_lag": "sent later than intended",
    "connection_wait": "waited for a connection",
}
_MOST_SIZES = 4


def lag_rows(health: Health) -> list[tuple[str, str, str, str, str, str]]:
    """Return (name, in words, count, p50, p99, max) of each lag that was recorded."""
    return [
        (
            name,
            _LAG_TITLES[name],
            formatting.count(row["count"]),
            formatting.ms(row["p50"]),
            formatting.ms(row["p99"]),
            formatting.ms(row["max"]),
        )
        for name, row in health["lags"].items()
        if row["count"]
    ]


def worker_rows(health: Health) -> list[tuple[str, ...]]:
    """Return a row a worker: its number, end, CPU, wait for a core, cores, and p99 of its lags in ms."""
    return [
        (
            str(worker["worker"]),
            worker["ended"],
            percent(worker["cpu_share"]),
            percent(worker["cpu_wait_share"]),
            "all" if worker["cpus"] is None else ", ".join(map(str, worker["cpus"])),
            formatting.ms(worker["loop_lag_p99_ms"]),
            formatting.ms(worker["wake_lag_p99_ms"]),
            formatting.ms(worker["read_lag_p99_ms"]),
            formatting.ms(worker["send_lag_p99_ms"]),
        )
        for worker in health["workers"]
    ]


WORKER_COLUMNS = (
    "worker",
    "ended",
    "CPU of a core",
    "waited for a core",
    "cores",
    "loop p99",
    "wake p99",
    "read p99",
    "send p99",
)


def machine_line(health: Health) -> str:
    """Return one line on the workers' CPU and the machine; empty where nothing is known."""
    if not health["workers"]:
        return ""
    used = [w["cpu_share"] for w in health["workers"] if w["cpu_share"] is not None]
    waited = [w["cpu_wait_share"] for w in health["workers"] if w["cpu_wait_share"] is not None]
    other = health["other_load_cores"]
    parts = (
        f"load workers {len(health['workers'])}",
        f"CPU at most {percent(max(used, default=None))} of a core",
        f"waited for a core {percent(max(waited, default=None))}",
        f"other processes {formatting.UNKNOWN if other is None else f'{other:.1f} cores'}",
        f"stolen {percent(health['steal_share'])}",
        f"governor {health['governor'] or formatting.UNKNOWN}",
    )
    return "; ".join(parts)


def reads_line(health: Health) -> str:
    """Return one line on how many token events the reads brought; empty without any."""
    sizes = {int(size): number for size, number in health["events_per_read"].items()}
    whole = sum(sizes.values())
    if not whole:
        return ""
    shown = [
        f"{size}: {number / whole:.1%}" for size, number in sizes.items() if size < _MOST_SIZES
    ]
    more = sum(number for size, number in sizes.items() if size >= _MOST_SIZES)
    if more:
        shown.append(f"{_MOST_SIZES} or more: {more / whole:.1%} (at most {max(sizes)})")
    return f"token events a read: {', '.join(shown)}"


def percent(share: float | None) -> str:
    """Return a share as a percentage."""
    return formatting.UNKNOWN if share is None else f"{share:.1%}"

"""A calibration and the queue estimates made with one, as rows of text for the terminal and the page."""

from __future__ import annotations

from phasemeter.analysis.calibration import Calibration
from phasemeter.analysis.shape import QueueSummary, Spread
from phasemeter.analysis.ttft_curve import TtftCurve
from phasemeter.report import formatting

PROMPT_COLUMNS = ("requests", "min", "p50", "max", "curve (p50)", "curve (min)")
DECODE_COLUMNS = ("step p50", "tokens/s", "gaps")
QUEUE_COLUMNS = (
    "requests",
    "at least p50",
    "p90",
    "max",
    "at most p50",
    "p90",
    "max",
    "width / ttft",
)


def prompt_rows(calibration: Calibration) -> list[tuple[str, ...]]:
    """Return (prompt tokens, *PROMPT_COLUMNS), times in ms."""
    return [
        (
            formatting.count(one.prompt_tokens),
            formatting.count(one.requests),
            formatting.ms(one.min_ms),
            formatting.ms(one.p50_ms),
            formatting.ms(one.max_ms),
            formatting.ms(calibration.typical.at_ms(one.prompt_tokens)),
            formatting.ms(calibration.fastest.at_ms(one.prompt_tokens)),
        )
        for one in calibration.prompts
    ]


def decode_rows(calibration: Calibration) -> list[tuple[str, ...]]:
    """Return (streams, *DECODE_COLUMNS), times in ms."""
    return [
        (
            formatting.count(one.streams),
            formatting.ms(one.step_ms),
            formatting.rate(one.streams * 1_000 / one.step_ms),
            formatting.count(one.gaps),
        )
        for one in calibration.decode
    ]


def calibration_lines(calibration: Calibration) -> list[str]:
    """Return the curves, the network and the token budget, a sentence each without its full stop."""
    lines = [
        f"typical: {_formula(calibration.typical)}",
        f"fastest: {_formula(calibration.fastest)}, off by at most {calibration.fit_error_ms:.2g} ms",
    ]
    if calibration.round_trip_ms is not None:
        lines.append(
            f"network: connecting {formatting.ms(calibration.connect_ms)} ms, a request that needs no "
            f"engine {formatting.ms(calibration.round_trip_ms)} ms (least of a few)"
        )
    return lines


def queue_rows(queues: QueueSummary) -> list[tuple[str, ...]]:
    """Return (class, *QUEUE_COLUMNS), times in ms."""
    return [
        (
            name,
            formatting.count(one["requests"]),
            *_cells(one["lower"]),
            *_cells(one["upper"]),
            f"{one['width_share_p50']:.0%}",
        )
        for name, one in queues["classes"].items()
    ]


def queue_lines(queues: QueueSummary) -> list[str]:
    """Return how the bounds came about, and how they compare with what the server says."""
    number = sum(one["requests"] for one in queues["classes"].values())
    with_steps = sum(one["with_steps"] for one in queues["classes"].values())
    lines = []
    if with_steps < number:
        lines.append(
            f"{number - with_steps} of {number} lower bounds are 0: steps or token budget are not known"
        )
    if queues["server_told"]:
        lines.append(
            f"the server tells its own queue times: {queues['server_within']} of "
            f"{queues['server_told']} lie within the bounds"
        )
    return lines


def _cells(spread: Spread) -> tuple[str, str, str]:
    return formatting.ms(spread["p50"]), formatting.ms(spread["p90"]), formatting.ms(spread["max"])


def _formula(curve: TtftCurve) -> str:
    text = f"{curve.base_ms:.3g} ms + {curve.per_token_ms:.3g} ms x T"
    if curve.per_token_squared_ms:
        text += f" + {curve.per_token_squared_ms:.3g} ms x T^2"
    return text

"""What the planner found, as rows and sentences of text that the terminal and the page both show."""

from __future__ import annotations

from phasemeter.analysis.bootstrapped import Bootstrapped
from phasemeter.analysis.pd_ratio import Prediction
from phasemeter.analysis.planner_finding import MeasuredTopology, PhaseRate, PlannerFinding
from phasemeter.report import formatting

PHASE_COLUMNS = ("phase alone", "users", "tokens/s", "requests/s of the mix", "step, ms", "context")
PLAN_COLUMNS = (
    "topology",
    "GPUs",
    "predicted",
    "per GPU",
    "limit",
    "measured",
    "per GPU",
    "measured/predicted",
)
MEASURED_PER_GPU = 6
"""Place of that column."""

KEY = (
    "Predicted from the rates rP and rD of one instance with one phase at a time. xPyD: x prefill and y\n"
    "decode instances, min(x rP, y rD). Mixed, elastic: phases that take turns, n / (1/rP + 1/rD).\n"
    "Neither has interference or hand-off in it. In brackets: 95 % intervals."
)


def heading(finding: PlannerFinding) -> str:
    """Say in one sentence what was planned for."""
    classes = ", ".join(
        f"{one.name} {one.share:.0%} {one.prompt_tokens:,}/{one.output_tokens:,}"
        for one in finding.mix
    )
    return (
        f"{finding.instances * finding.gpus_per_instance} GPUs for the mix {classes} (prompt/output "
        f"tokens); a request has {finding.prompt_tokens:,.0f} and {finding.output_tokens:,.1f} on average"
    )


def phase_rows(finding: PlannerFinding) -> list[tuple[str, ...]]:
    """Return what one instance did of each phase alone, in the order of `PHASE_COLUMNS`."""
    phases = (("prefill", finding.prefill), ("decode", finding.decode))
    return [_phase_row(name, rate) for name, rate in phases]


def plan_rows(finding: PlannerFinding) -> list[tuple[str, ...]]:
    """Return every split and every topology that was measured, in the order of `PLAN_COLUMNS`."""
    measured = list(finding.measured)
    rows = []
    for prediction in finding.predictions:
        of_it = next((one for one in measured if one.shape == prediction.shape), None)
        if of_it is not None:
            measured.remove(of_it)
        rows.append(_plan_row(finding, prediction, of_it))
    rows += [_plan_row(finding, one.prediction, one) for one in measured]
    return rows


def verdict(finding: PlannerFinding) -> str:
    """Say in a paragraph which split is predicted to serve most."""
    if not finding.is_complete:
        missing = [
            name
            for name, rate in (("prefill", finding.prefill), ("decode", finding.decode))
            if rate is None
        ]
        return f"Nothing can be predicted: the rate of {' and of '.join(missing)} alone is missing."
    mixed = finding.predictions[-1]
    text = ""
    if finding.best is not None:
        best = finding.best
        share = "" if finding.best_share is None else f", in {finding.best_share:.0%} of the draws"
        text = (
            f"Of the splits {best.shape.name} is predicted to serve most: "
            f"{_rate(best.requests_per_s)} requests/s{share}, limited by {best.limited_by}. "
        )
    text += f"{mixed.shape.name}, phases taking turns, would serve {_rate(mixed.requests_per_s)} requests/s."
    if finding.matched is not None:
        text += f" The rates match at {_number(finding.matched)} prefill instances for each decode instance."
    return text


def _phase_row(name: str, rate: PhaseRate | None) -> tuple[str, ...]:
    if rate is None:
        return (name, *[formatting.UNKNOWN] * (len(PHASE_COLUMNS) - 1))
    context = rate.context_tokens
    return (
        name,
        formatting.count(rate.users),
        _rate(rate.tokens_per_s),
        _rate(rate.requests_per_s),
        formatting.ms(rate.step_ms),
        formatting.UNKNOWN if context is None else f"{context:,.0f}",
    )


def _plan_row(
    finding: PlannerFinding, prediction: Prediction | None, measured: MeasuredTopology | None
) -> tuple[str, ...]:
    name = measured.arm if measured is not None else ""
    gpus = measured.gpus if measured is not None else None
    predicted: tuple[str, str, str] = (formatting.UNKNOWN, formatting.UNKNOWN, formatting.UNKNOWN)
    if prediction is not None:
        name = prediction.shape.name
        gpus = finding.gpus_of(prediction.shape)
        rate = prediction.requests_per_s
        predicted = (
            _rate(rate),
            formatting.rate(rate.value / gpus),
            prediction.limited_by or "both",
        )
    found: tuple[str, str, str] = ("", "", "")
    if measured is not None:
        ratio = measured.ratio
        found = (
            _rate(measured.requests_per_s),
            formatting.rate(measured.requests_per_s.value / measured.gpus),
            formatting.UNKNOWN if ratio is None else _number(ratio),
        )
    return (name, formatting.count(gpus), *predicted, *found)


def _rate(rate: Bootstrapped) -> str:
    """Return a rate with its interval."""
    ci95 = rate.ci95
    text = formatting.rate(rate.value)
    return text if ci95 is None else f"{text} [{', '.join(map(formatting.rate, ci95))}]"


def _number(ratio: Bootstrapped) -> str:
    """Return a ratio with its interval, two decimals each."""
    ci95 = ratio.ci95
    text = f"{ratio.value:,.2f}"
    return text if ci95 is None else f"{text} [{', '.join(f'{one:,.2f}' for one in ci95)}]"

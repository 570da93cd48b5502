"""The report as one HTML file that needs nothing else: no network, no fonts, no scripts from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from phasemeter.analysis.calibration import Calibration
from phasemeter.analysis.engine_steps import EngineSteps
from phasemeter.analysis.finding import Factor, Finding
from phasemeter.analysis.planner_finding import PlannerFinding
from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.samples import Samples, collect
from phasemeter.analysis.shape import Summary
from phasemeter.metrics import BUILTIN
from phasemeter.report import (
    calibration_rows,
    formatting,
    health_rows,
    injection_rows,
    planner_rows,
    ramp_rows,
    server_rows,
    steps_rows,
    tables,
)
from phasemeter.report.about import CALIBRATE, about_run, kind_of
from phasemeter.report.cibar import interval_bars
from phasemeter.report.factor_matrix import RAMP
from phasemeter.report.figure import Figure
from phasemeter.report.plots import (
    Plot,
    calibration_plots,
    interference_plots,
    load_plots,
    planner_plots,
    steps_plots,
)

_VERDICT_HEADINGS = {
    "interference": "Interference shown",
    "none": "No interference shown",
    "invalid": "Nothing can be said",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One figure in large type.

    Attributes:
        label: What it is.
        value: The figure as text.
        unit: Its unit.
        detail: A second line.
    """

    label: str
    value: str
    unit: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Page:
    """What the template shows."""

    title: str
    kind: str
    about: list[tuple[str, str]]
    summary: Summary
    finding: Finding | None
    heading: str
    cards: list[Card]
    plots: list[Plot]
    factors: list[tuple[Factor, Markup]]
    ramp_factors: list[tuple[Factor, Markup]]
    planner: PlannerFinding | None

    @property
    def is_load(self) -> bool:
        return self.finding is None and self.planner is None

    @property
    def shown_factors(self) -> list[tuple[Factor, Markup]]:
        return [row for row in self.factors if _is_shown(row[0])]

    @property
    def other_factors(self) -> list[tuple[Factor, Markup]]:
        return [row for row in self.factors if not _is_shown(row[0])]


def _is_shown(factor: Factor) -> bool:
    return formatting.effect(factor) in ("higher", "lower")


def render_page(
    run: RunRecords,
    summary: Summary,
    finding: Finding | None,
    *,
    samples: Mapping[str, Samples] | None = None,
    steps: Sequence[EngineSteps] = (),
    planner: PlannerFinding | None = None,
) -> str:
    """Return the report of a run as HTML text (about 5 MB, most of it the plotting library).

    Args:
        run: The run as read from its folder.
        summary: Its summary.
        finding: The outcome of an interference run, None for a load run.
        samples: `collect(run.timelines)` where the caller has it already.
        steps: `steps_of(run)`, for the drawing of steps around a prompt.
        planner: What a planner's run showed, None for any other.
    """
    if planner is not None:
        plots = planner_plots(planner)
    elif finding is not None:
        plots = interference_plots(run, finding)
    else:
        plots = load_plots(run, collect(run.timelines) if samples is None else samples)
    factors = () if finding is None else finding.factors
    calibration = summary["calibration"]
    calibrated = None if calibration is None else Calibration.from_json(calibration)
    if calibrated is not None:
        plots = [*calibration_plots(run, calibrated), *plots]
    plots += steps_plots(steps)
    page = _Page(
        title=f"phasemeter {kind_of(run)} report",
        kind=kind_of(run),
        about=about_run(run),
        summary=summary,
        finding=finding,
        heading=_VERDICT_HEADINGS[finding.verdict.kind] if finding else "",
        cards=_cards(summary) if finding is None and planner is None else [],
        plots=plots,
        factors=_with_bars([one for one in factors if not _is_of_ramp(one)]),
        ramp_factors=_with_bars([one for one in factors if _is_of_ramp(one)]),
        planner=planner,
    )
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        tables=tables,
        injection=injection_rows,
        ramp=ramp_rows,
        planner=planner_rows,
        health=health_rows,
        steps=steps_rows,
        calibration=calibrated,
        is_calibration=kind_of(run) == CALIBRATE,
        rows=calibration_rows,
        servers=server_rows,
        formatting=formatting,
        metrics=BUILTIN,
        metric_names=[metric.name for metric in BUILTIN],
        style=Markup(_asset("style.css")),
        script=Markup(_asset("figures.js")),
        plotly=Markup(_plotly()),
    )


def _is_of_ramp(factor: Factor) -> bool:
    return factor.name.split(".")[1:2] == [RAMP]


def _with_bars(factors: Sequence[Factor]) -> list[tuple[Factor, Markup]]:
    return list(zip(factors, interval_bars(factors), strict=True))


def _cards(summary: Summary) -> list[Card]:
    ttft, gap = summary["metrics"]["ttft"], summary["metrics"]["gap"]
    requests = summary["requests"]
    rates = summary["throughput"]["steady"] or summary["throughput"]["whole"]
    window = "steady window" if summary["throughput"]["steady"] else "whole run"
    return [
        Card(
            "requests ok",
            formatting.count(requests["ok"]),
            detail=f"of {formatting.count(requests['issued'])} issued",
        ),
        Card("TTFT p50", formatting.ms(ttft["p50"]), "ms", f"p99 {formatting.ms(ttft['p99'])} ms"),
        Card("gap p50", formatting.ms(gap["p50"]), "ms", f"p99 {formatting.ms(gap['p99'])} ms"),
        Card("longest gap", formatting.ms(gap["max"]), "ms"),
        Card(
            "output tokens",
            formatting.rate(rates["output_tokens_per_s"] if rates else None),
            "/s",
            window,
        ),
    ]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("phasemeter.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure_json"] = figure_json
    return environment


def figure_json(figure: Figure) -> Markup:
    """Return a figure as JSON that is safe inside a script element."""
    text = json.dumps(figure, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"))


def _asset(name: str) -> str:
    return resources.files("phasemeter.report").joinpath("templates", name).read_text("utf-8")


@cache
def _plotly() -> str:
    script: str = get_plotlyjs()
    return script.replace("</script", r"<\/script")

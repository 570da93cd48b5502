"""`phasemeter plan`: how many instances should prefill and how many decode, from measured rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from phasemeter.cli.options import (
    API_KEY_ENV_OPTION,
    DURATION,
    HEADER_OPTION,
    JSON_OPTION,
    OUTPUT_OPTION,
    TIMEOUT_OPTION,
    read_headers,
    reported_if_cut_off,
    show_report,
)
from phasemeter.cli.topologies import (
    BOOTSTRAP_OPTION,
    HANDOFF_OPTION,
    Topologies,
    the_one_topology,
)
from phasemeter.core.errors import UsageError

if TYPE_CHECKING:
    from phasemeter.analysis.pd_ratio import Shape
    from phasemeter.experiments.phase_isolated import PlannerSettings
    from phasemeter.experiments.planner import PlannedFor
    from phasemeter.load.handoff import Handoff
    from phasemeter.load.target import Target


@click.command("plan")
@click.argument("url", required=False)
@click.option("--lab", is_flag=True, help="Plan for lab engines, started on two cores.")
@click.option(
    "--mixed",
    multiple=True,
    metavar="URL",
    help="Mixed instances, whose throughput is measured beside the prediction.",
)
@click.option(
    "--separated",
    metavar="prefill=URL,decode=URL",
    help="Prefill and decode instances, likewise; a URL in both roles is an elastic instance.",
)
@HANDOFF_OPTION
@BOOTSTRAP_OPTION
@click.option(
    "--mix", help="The traffic to plan for, for instance short=60%:256/128,long=40%:3000/100."
)
@click.option(
    "--gpus", type=click.IntRange(min=1), help="GPUs to plan for; 2 instances by default."
)
@click.option("--gpus-per-instance", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--model", help="Model to ask for; by default the only one the server lists.")
@click.option(
    "--decode-context",
    type=click.IntRange(min=1),
    help="Mean context of the streams that decode alone, in tokens; that of the mix by default.",
)
@click.option(
    "--most-users",
    type=click.IntRange(1, 4096),
    help="Users, or streams, at the same time: the searches go no further.",
)
@click.option("--search-time", type=DURATION, help="Time for each number of users of a search.")
@click.option("--measure-time", type=DURATION, help="Time for each repeat of what was found.")
@click.option("--repeats", type=click.IntRange(1, 100), help="How often that is measured.")
@click.option("--seed", type=int, default=1, show_default=True)
@TIMEOUT_OPTION
@HEADER_OPTION
@API_KEY_ENV_OPTION
@OUTPUT_OPTION
@JSON_OPTION
def command(
    url: str | None,
    mixed: tuple[str, ...],
    separated: str | None,
    handoff: Handoff,
    bootstrap_ports: str | None,
    mix: str | None,
    gpus: int | None,
    gpus_per_instance: int,
    model: str | None,
    decode_context: int | None,
    most_users: int | None,
    search_time: float | None,
    measure_time: float | None,
    repeats: int | None,
    seed: int,
    timeout: float,
    headers: tuple[str, ...],
    api_key_env: str | None,
    output: Path | None,
    *,
    lab: bool,
    as_json: bool,
) -> int:
    """Predict the throughput of every split of prefill and decode instances.

    One instance at URL is measured with prompts alone, then with streams that decode alone, each up to
    the number of users at which more bring no more. From the two rates follows what x prefill and y
    decode instances would serve of the mix without interference. Topologies that are given are measured
    beside that.
    """
    from phasemeter.experiments.phase_isolated import LAB_SETTINGS, PlannerSettings
    from phasemeter.load import run_folder
    from phasemeter.load.workload import parse_mix

    if lab == bool(url or mixed or separated):
        msg = "URL, --lab: exactly one is needed; accepted: one of your instances, or --lab"
        raise UsageError(msg)
    changes = {
        "mix": None if mix is None else parse_mix(mix),
        "instances": _instances(gpus, gpus_per_instance),
        "gpus_per_instance": gpus_per_instance,
        "decode_context_tokens": decode_context,
        "most_users": most_users,
        "search_s": search_time,
        "measure_s": measure_time,
        "repeats": repeats,
        "seed": seed,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    settings = replace(LAB_SETTINGS if lab else PlannerSettings(), **given)  # type: ignore[arg-type]
    if lab:
        return _plan_on_lab(settings, output, timeout_s=timeout, as_json=as_json)
    topologies = Topologies(
        mixed=mixed,
        separated=separated,
        handoff=handoff,
        bootstrap_ports=bootstrap_ports,
        model=model,
        gpus_per_instance=gpus_per_instance,
    )
    extra = read_headers(headers, api_key_env)
    targets, shapes = _find_targets(url, topologies, extra)
    _refuse_too_long(settings, targets, extra)
    planned = _planned(settings, targets, shapes)
    folder = run_folder.create(output, "plan")
    _measure(folder, planned, targets, extra, timeout_s=timeout, as_json=as_json)
    return show_report(folder, as_json=as_json)


def _instances(gpus: int | None, gpus_per_instance: int) -> int | None:
    if gpus is None:
        return None
    if gpus % gpus_per_instance:
        msg = (
            f"--gpus: {gpus} GPUs are no whole number of instances of {gpus_per_instance}; accepted: "
            f"a multiple of {gpus_per_instance}"
        )
        raise UsageError(msg)
    return gpus // gpus_per_instance


def _plan_on_lab(
    settings: PlannerSettings, output: Path | None, *, timeout_s: float, as_json: bool
) -> int:
    from phasemeter.analysis.pd_ratio import Shape
    from phasemeter.cli.experiment import lab_targets
    from phasemeter.experiments.phase_isolated import ISOLATED
    from phasemeter.load import run_folder

    folder = run_folder.create(output, "plan")
    with lab_targets(
        folder, lambda topologies: _refuse_too_long(settings, topologies, {})
    ) as topologies:
        targets = {ISOLATED: _alone(topologies["mixed"], 1)}
        targets |= {arm: topologies[arm] for arm in ("mixed", "separated")}
        shapes = {"mixed": Shape("mixed", 2, 2), "separated": Shape("separated", 1, 1)}
        planned = _planned(settings, targets, shapes)
        _measure(folder, planned, targets, {}, timeout_s=timeout_s, as_json=as_json)
    return show_report(folder, as_json=as_json)


def _alone(target: Target, gpus: int) -> Target:
    """Return the first instance of a mixed target."""
    return replace(target, topology="single", endpoints=target.endpoints[:1], gpus=gpus)


def _planned(
    settings: PlannerSettings, targets: Mapping[str, Target], shapes: Mapping[str, Shape | None]
) -> PlannedFor:
    from phasemeter.experiments.planner import PlannedFor

    gpus = {arm: targets[arm].gpus or settings.gpus_per_instance for arm in shapes}
    return PlannedFor(settings, shapes, gpus)


def _find_targets(
    url: str | None, topologies: Topologies, headers: Mapping[str, str]
) -> tuple[dict[str, Target], dict[str, Shape | None]]:
    """Return the targets, that of the isolated instance first, and the topologies' shapes.

    Raises:
        UsageError: If an option is malformed or an instance does not do.
    """
    from phasemeter.analysis.pd_ratio import Shape
    from phasemeter.experiments.phase_isolated import ISOLATED
    from phasemeter.load.preflight import warm_up

    url = url or next(iter(topologies.mixed), None)
    if url is None:
        msg = "URL: is needed with --separated alone; accepted: an instance that serves whole requests"
        raise UsageError(msg)
    alone = replace(topologies, mixed=(url,), separated=None, bootstrap_ports=None)
    wanted = {ISOLATED: the_one_topology(alone)}
    shapes: dict[str, Shape | None] = {}
    if topologies.mixed:
        number = len(topologies.mixed)
        wanted["mixed"] = the_one_topology(replace(alone, mixed=topologies.mixed))
        shapes["mixed"] = Shape("mixed", number, number)
    if topologies.separated is not None:
        legs = the_one_topology(replace(topologies, mixed=()))
        shape = _shape(set(legs.urls), set(legs.decode_urls))
        name = "elastic" if shape is not None and shape.kind == "elastic" else "separated"
        wanted[name], shapes[name] = legs, shape
    targets = {}
    for name, one in wanted.items():
        # An instance with both roles is one instance.
        instances = len({*one.urls, *one.decode_urls})
        gpus = topologies.gpus_per_instance * instances
        targets[name] = one.find(topologies, headers, gpus=gpus)
        warm_up(targets[name], headers=headers)
    return targets, shapes


def _shape(prefill: set[str], decode: set[str]) -> Shape | None:
    """Return the shape; None where some instances have both roles and others one."""
    from phasemeter.analysis.pd_ratio import Shape

    if prefill == decode:
        return Shape("elastic", len(prefill), len(prefill))
    return None if prefill & decode else Shape("separated", len(prefill), len(decode))


def _refuse_too_long(
    settings: PlannerSettings, targets: Mapping[str, Target], headers: Mapping[str, str]
) -> None:
    from phasemeter.load.preflight import refuse_too_long

    for target in targets.values():
        refuse_too_long(target, settings.mix, headers=headers)


def _measure(
    folder: Path,
    planned: PlannedFor,
    targets: Mapping[str, Target],
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Carry out the runs.

    Raises:
        KeyboardInterrupt, WorkerFailedError, NothingMeasuredError: After a report on what was measured
            so far.
    """
    from phasemeter.cli.progress import run_progress
    from phasemeter.experiments.run_planner import NothingMeasuredError, run_planner

    cut_off = reported_if_cut_off(folder, as_json=as_json, also=(NothingMeasuredError,))
    with cut_off, run_progress() as progress:
        run_planner(
            folder,
            planned,
            targets,
            headers=headers,
            timeout_s=timeout_s,
            on_progress=lambda run, elapsed_s, sums: progress.show(
                # How many runs there will be is found on the way: the bar is that of the run.
                elapsed_s / run.plan.duration_s,
                f"{run.arm} {run.condition} {run.phases[1].name}",
                sums,
            ),
        )

"""`phasemeter interference`: what prefill and decode do to each other, mixed against separated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from phasemeter.cli.options import (
    API_KEY_ENV_OPTION,
    DURATION,
    HEADER_OPTION,
    JSON_OPTION,
    MOST_PER_S,
    OUTPUT_OPTION,
    TIMEOUT_OPTION,
    listed_numbers,
    read_headers,
)
from phasemeter.cli.topologies import Topologies, find_targets, topology_options
from phasemeter.core.errors import UsageError

if TYPE_CHECKING:
    from phasemeter.experiments.interference_settings import Condition
    from phasemeter.load.workload import RequestClass

_MOST_USERS = 10_000

_EXAMPLES = {
    "--background-users": "1,4,8",
    "--inject-tokens": "512,1024,2048",
    "--inject-together": "1,4",
}


@click.command("interference")
@click.option(
    "--lab",
    is_flag=True,
    help="Start lab engines: two mixed replicas, one prefill and one decode instance, on the same two cores.",
)
@topology_options
@click.option(
    "--policy",
    type=click.Choice(["mixed", "chunked", "prefill-first"]),
    default="mixed",
    show_default=True,
    help="Policy of the mixed lab engines.",
)
@click.option(
    "--conditions",
    metavar="inject,mix,ramp",
    help="What is run; by default inject and mix.",
)
@click.option(
    "--background-users",
    help="Streams that decode all the time; several numbers get a run each, for instance 1,4,8.",
)
@click.option(
    "--inject-tokens", help="Lengths of the injected prompts, for instance 512,1024,2048."
)
@click.option(
    "--inject-together",
    help="How many prompts are injected at the same moment, for instance 1,4.",
)
@click.option(
    "--inject-rate",
    type=click.FloatRange(min=0, min_open=True),
    help="Injections per second, each of one or more prompts.",
)
@click.option(
    "--mix", help="The short and the long class, for instance short=60%:256/128,long=40%:3000/100."
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Requests per second of the mix."
)
@click.option("--inject-time", type=DURATION, help="Length of the phase with injected prompts.")
@click.option("--mix-time", type=DURATION, help="Length of each mix condition.")
@click.option("--ramp-users", help="Levels of the ramp, for instance 1,2,4,8,16,32.")
@click.option(
    "--ramp-mix",
    help="What the users of the ramp ask for, any number of classes; --mix by default.",
)
@click.option("--ramp-time", type=DURATION, help="Measured time of each level of the ramp.")
@click.option("--repeats", type=click.IntRange(1, 100), help="How often everything is run.")
@click.option("--seed", type=int, default=1, show_default=True)
@TIMEOUT_OPTION
@HEADER_OPTION
@API_KEY_ENV_OPTION
@OUTPUT_OPTION
@JSON_OPTION
def command(
    topologies: Topologies,
    policy: str,
    conditions: str | None,
    background_users: str | None,
    inject_tokens: str | None,
    inject_together: str | None,
    inject_rate: float | None,
    mix: str | None,
    rate: float | None,
    inject_time: float | None,
    mix_time: float | None,
    ramp_users: str | None,
    ramp_mix: str | None,
    ramp_time: float | None,
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
    """Run the mixed-versus-separated interference experiment and say what it showed.

    inject: background streams alone, then with prompts injected beside them. mix: a short class alone,
    a long class alone, both together. ramp: more and more users, each with one request of the mix at a
    time. Topologies take turns and everything is repeated; they are only
    compared at equal GPU count.
    """
    from phasemeter.cli.experiment import (
        refuse_too_long_prompts,
        run_experiment,
        run_on_lab,
    )
    from phasemeter.experiments.interference_settings import LAB_SETTINGS, InterferenceSettings
    from phasemeter.load import run_folder

    if lab == topologies.any:
        msg = (
            "--lab, --mixed, --class-routed, --separated, --proxied: give --lab, or the URLs of your "
            "own instances"
        )
        raise UsageError(msg)
    for name, per_s in (("--rate", rate), ("--inject-rate", inject_rate)):
        if per_s is not None and not 0 < per_s <= MOST_PER_S:
            msg = f"{name}: {per_s} is no rate; accepted: up to {MOST_PER_S:,} per second"
            raise UsageError(msg)
    changes = {
        "conditions": None if conditions is None else _conditions(conditions),
        "background_users": _numbers("--background-users", background_users),
        "inject_prompt_tokens": _numbers("--inject-tokens", inject_tokens),
        "inject_together": _numbers("--inject-together", inject_together),
        "injections_per_s": inject_rate,
        "mix": None if mix is None else _two_classes(mix),
        "rate_per_s": rate,
        "inject_s": inject_time,
        "mix_s": mix_time,
        "ramp_users": None if ramp_users is None else _levels(ramp_users),
        "ramp_mix": None if ramp_mix is None else _classes(ramp_mix),
        "ramp_s": ramp_time,
        "repeats": repeats,
        "seed": seed,
    }
    start = LAB_SETTINGS if lab else InterferenceSettings()
    given = {name: value for name, value in changes.items() if value is not None}
    settings = replace(start, **given)  # type: ignore[arg-type]
    extra = read_headers(headers, api_key_env)
    if lab:
        return run_on_lab(settings, policy, output, timeout_s=timeout, as_json=as_json)
    short, long = settings.mix
    targets = find_targets(topologies, (short.name, long.name), extra)
    refuse_too_long_prompts(settings, targets, extra)
    folder = run_folder.create(output, "interference")
    return run_experiment(
        settings,
        targets,
        folder,
        extra,
        timeout_s=timeout,
        as_json=as_json,
        per_gpu=topologies.per_gpu,
    )


def _conditions(text: str) -> tuple[Condition, ...]:
    from phasemeter.experiments.interference_settings import CONDITIONS

    wanted = {item.strip() for item in text.split(",")}
    unknown = sorted(wanted.difference(CONDITIONS))
    if unknown:
        accepted = ", ".join(CONDITIONS)
        msg = f"--conditions: {unknown[0]!r} is no condition; accepted: {accepted}, or several"
        raise UsageError(msg)
    return tuple(one for one in CONDITIONS if one in wanted)


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    numbers = listed_numbers(text)
    if not numbers or len(set(numbers)) < len(numbers):
        example = _EXAMPLES[option]
        msg = f"{option}: {text!r} is no list of different numbers from 1; accepted: {example}"
        raise UsageError(msg)
    return numbers


def _levels(text: str) -> tuple[int, ...]:
    """Return numbers of users, the fewest first."""
    levels = set(listed_numbers(text))
    if not levels or max(levels) > _MOST_USERS:
        msg = (
            f"--ramp-users: {text!r} is no list of numbers of users; accepted: 1,2,4,8,16,32, "
            f"each up to {_MOST_USERS:,}"
        )
        raise UsageError(msg)
    return tuple(sorted(levels))


def _classes(text: str) -> tuple[RequestClass, ...]:
    from phasemeter.load.workload import parse_mix

    try:
        return parse_mix(text)
    except UsageError as fault:
        msg = str(fault).replace("--mix:", "--ramp-mix:", 1)
        raise UsageError(msg) from fault


def _two_classes(text: str) -> tuple[RequestClass, RequestClass]:
    from phasemeter.load.workload import parse_mix

    classes = parse_mix(text)
    if len(classes) != 2:
        msg = f"--mix: {len(classes)} classes in {text!r}; accepted: two, the short one first"
        raise UsageError(msg)
    first, second = classes
    return first, second

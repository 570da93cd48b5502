"""`phasemeter load`: send a planned load to a server and record every token's arrival."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from phasemeter.cli.options import (
    API_KEY_ENV_OPTION,
    DURATION,
    HEADER_OPTION,
    INSECURE_OPTION,
    JSON_OPTION,
    MOST_PER_S,
    OUTPUT_OPTION,
    STAMPS_OPTION,
    TIMEOUT_OPTION,
    read_headers,
    reported_if_cut_off,
    show_report,
)
from phasemeter.cli.topologies import (
    BOOTSTRAP_OPTION,
    CLASS_ROUTED_OPTION,
    HANDOFF_OPTION,
    SEPARATED_OPTION,
    Topologies,
    the_one_topology,
)
from phasemeter.core.errors import UsageError

if TYPE_CHECKING:
    from phasemeter.load.connecting import StampChoice
    from phasemeter.load.handoff import Handoff
    from phasemeter.load.plan import Plan

_REQUESTS_LIMIT_S = 3600.0
_DEFAULT_MIX = "all=100%:256/128"


@dataclass(frozen=True, slots=True)
class _Load:
    """What was asked for; the checks across options are here."""

    users: int | None
    rate_per_s: float | None
    arrivals: str
    mix: str
    duration_s: float | None
    requests: int | None
    drain_s: float
    seed: int

    def plan(self) -> Plan:
        """Return the plan.

        Raises:
            UsageError: If options are missing or contradict each other.
        """
        from phasemeter.load.arrivals import ArrivalProcess
        from phasemeter.load.plan import ArrivalFlow, Flow, Plan, UserFlow
        from phasemeter.load.workload import parse_mix

        if self.rate_per_s is not None and not 0 < self.rate_per_s <= MOST_PER_S:
            msg = f"--rate: {self.rate_per_s} is no rate; accepted: up to {MOST_PER_S:,} per second"
            raise UsageError(msg)
        if (self.users is None) == (self.rate_per_s is None):
            msg = "--users, --rate: exactly one is needed; accepted: --users N or --rate R"
            raise UsageError(msg)
        if self.duration_s is None and self.requests is None:
            msg = "--duration, --requests: at least one is needed; accepted: 60s, 2m or a number"
            raise UsageError(msg)
        mix = parse_mix(self.mix)
        stop_s = self.duration_s or _REQUESTS_LIMIT_S
        flow: Flow
        if self.users is not None:
            flow = UserFlow("users", mix, self.users, 0.0, stop_s, max_requests=self.requests)
        else:
            process: ArrivalProcess = "constant" if self.arrivals == "constant" else "poisson"
            rate_per_s = self.rate_per_s or 0.0
            flow = ArrivalFlow(
                "arrivals", mix, rate_per_s, process, 0.0, stop_s, max_requests=self.requests
            )
        return Plan((flow,), stop_s, self.drain_s, self.seed)

    def share_done(self, elapsed_s: float, finished: int) -> float:
        """Return how much of the load is done, by time or by requests, whichever is further."""
        by_time = elapsed_s / self.duration_s if self.duration_s else 0.0
        by_requests = finished / self.requests if self.requests else 0.0
        return max(by_time, by_requests)


def _calibration(run: Path) -> dict[str, object]:
    """Return what a calibrating run tells, for the manifest.

    Raises:
        UsageError: If the run cannot be read, or gives no curve.
    """
    from phasemeter.analysis.calibration import calibration_from
    from phasemeter.analysis.engine_steps import steps_of
    from phasemeter.analysis.records import load_run

    records = load_run(run)
    calibration = calibration_from(records, steps_of(records))
    if calibration is None:
        msg = (
            f"--calibrated-by: {run} gives no curve of ttft_wire over the prompt; accepted: a run of "
            "`phasemeter calibrate`, or one with prompts of two lengths or more whose server tells "
            "their tokens"
        )
        raise UsageError(msg)
    return {"ttft_curve": calibration.typical.to_json(), "calibration": calibration.to_json()}


@click.command("load")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@SEPARATED_OPTION
@CLASS_ROUTED_OPTION
@HANDOFF_OPTION
@BOOTSTRAP_OPTION
@click.option("--model", help="Model to ask for; by default the only one the server lists.")
@click.option(
    "--api",
    type=click.Choice(["chat", "completions"]),
    help="By default, the URL's, or completions where token-id prompts work, else chat.",
)
@click.option("--users", type=click.IntRange(min=1), help="Closed loop: so many users at a time.")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Open loop: requests per second."
)
@click.option(
    "--arrivals",
    type=click.Choice(["poisson", "constant"]),
    default="poisson",
    show_default=True,
    help="Arrival process of --rate.",
)
@click.option(
    "--mix",
    default=_DEFAULT_MIX,
    show_default=True,
    help="NAME=SHARE%:PROMPT/OUTPUT[,...], lengths in tokens.",
)
@click.option("--duration", type=DURATION, help="Send requests for so long, for instance 60s.")
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    help="Send so many requests (for at most an hour without --duration).",
)
@click.option(
    "--drain",
    type=DURATION,
    default=30.0,
    show_default="30s",
    help="Wait so long for the last answers; later ones are cancelled.",
)
@TIMEOUT_OPTION
@click.option(
    "--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Load processes."
)
@click.option("--pin", is_flag=True, help="Keep each load process to a CPU of its own.")
@click.option("--seed", type=int, default=1, show_default=True, help="Source of everything drawn.")
@click.option(
    "--gpus", type=click.IntRange(min=1), help="Accelerators behind the URL, for the report."
)
@click.option(
    "--calibrated-by",
    "calibration",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="A run of `phasemeter calibrate` on the idle server: the report then tells queueing from "
    "prefill, and first tokens that come far sooner are reported as cached.",
)
@STAMPS_OPTION
@INSECURE_OPTION
@HEADER_OPTION
@API_KEY_ENV_OPTION
@OUTPUT_OPTION
@JSON_OPTION
def command(
    urls: tuple[str, ...],
    separated: str | None,
    class_routed: str | None,
    handoff: Handoff,
    bootstrap_ports: str | None,
    model: str | None,
    api: str | None,
    users: int | None,
    rate: float | None,
    arrivals: str,
    mix: str,
    duration: float | None,
    requests: int | None,
    drain: float,
    timeout: float,
    workers: int,
    seed: int,
    gpus: int | None,
    calibration: Path | None,
    stamps: StampChoice,
    headers: tuple[str, ...],
    api_key_env: str | None,
    output: Path | None,
    *,
    pin: bool,
    insecure: bool,
    as_json: bool,
) -> int:
    """Drive the OpenAI-compatible server at URL with a planned load; several URLs are used in turn.

    Every token's arrival is stamped at the socket. Ends with a report; the run folder can be reported
    on again with `phasemeter report`. Ctrl-C keeps what was measured so far (exit status 130).
    """
    from phasemeter.cli.progress import run_progress
    from phasemeter.load import run_folder
    from phasemeter.load.connecting import Connecting
    from phasemeter.load.launch import cpus_for
    from phasemeter.load.preflight import refuse_too_long
    from phasemeter.load.run import run_load

    asked = Topologies(urls, class_routed, separated, handoff, bootstrap_ports, model=model)
    topology = the_one_topology(asked)
    load = _Load(users, rate, arrivals, mix, duration, requests, drain, seed)
    plan = load.plan()
    cpus = cpus_for(workers) if pin else []
    extra = read_headers(headers, api_key_env)
    about = {} if calibration is None else _calibration(calibration)
    target = topology.find(
        asked,
        extra,
        api="chat" if api == "chat" else "completions" if api == "completions" else None,
        gpus=gpus,
        connecting=Connecting(stamps=stamps, verify=not insecure),
    )
    refuse_too_long(target, plan.classes(), headers=extra)
    folder = run_folder.create(output, "load")
    with reported_if_cut_off(folder, as_json=as_json), run_progress() as progress:
        run_load(
            folder,
            plan,
            target,
            workers=workers,
            timeout_s=timeout,
            cpus=cpus,
            headers=extra,
            on_progress=lambda elapsed_s, sums: progress.show(
                load.share_done(elapsed_s, sums.ok + sums.failed), "load", sums
            ),
            about=about,
        )
    return show_report(folder, as_json=as_json)

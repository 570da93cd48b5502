"""`phasemeter calibrate`: what an idle server takes, by prompt length and by number of streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from phasemeter.cli.options import (
    API_KEY_ENV_OPTION,
    HEADER_OPTION,
    INSECURE_OPTION,
    JSON_OPTION,
    OUTPUT_OPTION,
    STAMPS_OPTION,
    TIMEOUT_OPTION,
    read_headers,
    reported_if_cut_off,
    show_report,
    whole_numbers,
)

if TYPE_CHECKING:
    from phasemeter.load.connecting import StampChoice

_STREAMS = "1,2,4,8"


@click.command("calibrate")
@click.argument("url")
@click.option("--model", help="Model to ask for; by default the only one the server lists.")
@click.option(
    "--api",
    type=click.Choice(["chat", "completions"]),
    help="By default, the URL's, or completions where token-id prompts work, else chat.",
)
@click.option(
    "--prompt-tokens",
    help="At least six lengths; by default 128 to 4096, as far as they fit the server.",
)
@click.option(
    "--repeats",
    type=click.IntRange(5, 1000),
    default=5,
    show_default=True,
    help="Prompts a length.",
)
@click.option(
    "--streams",
    default=_STREAMS,
    show_default=True,
    help="Numbers of concurrent streams whose steps are measured.",
)
@click.option(
    "--beside",
    type=click.IntRange(0, 64),
    default=3,
    show_default=True,
    help="Streams beside which prompts are sent, to tell the token budget; the server needs a slot more. 0 leaves that out.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Source of the random order.")
@TIMEOUT_OPTION
@STAMPS_OPTION
@INSECURE_OPTION
@HEADER_OPTION
@API_KEY_ENV_OPTION
@OUTPUT_OPTION
@JSON_OPTION
def command(
    url: str,
    model: str | None,
    api: str | None,
    prompt_tokens: str | None,
    repeats: int,
    streams: str,
    beside: int,
    seed: int,
    timeout: float,
    stamps: StampChoice,
    headers: tuple[str, ...],
    api_key_env: str | None,
    output: Path | None,
    *,
    insecure: bool,
    as_json: bool,
) -> int:
    """Calibrate the server at URL, which must do nothing else meanwhile.

    Unique prompts one at a time give the time to first token by length; streams without prompts give the
    decode step; prompts beside streams give the token budget. `phasemeter load --calibrated-by RUN`
    uses it to tell queueing from prefill. Ctrl-C keeps what was measured so far (exit status 130).
    """
    from phasemeter.cli.progress import run_progress
    from phasemeter.experiments.calibrate import carry_out_calibration
    from phasemeter.experiments.calibrate_plan import (
        CalibrationSettings,
        classes_of,
        lengths_up_to,
    )
    from phasemeter.load import run_folder
    from phasemeter.load.connecting import Connecting
    from phasemeter.load.preflight import find_target, longest_sequence, refuse_too_long, warm_up
    from phasemeter.load.round_trip import measure_round_trip

    lengths = None if prompt_tokens is None else whole_numbers("--prompt-tokens", prompt_tokens)
    numbers = whole_numbers("--streams", streams)
    if lengths is not None:
        CalibrationSettings(
            prompt_tokens=lengths, repeats=repeats
        )  # refused before anything is sent
    extra = read_headers(headers, api_key_env)
    target = find_target(
        [url],
        topology="single",
        model=model,
        api="chat" if api == "chat" else "completions" if api == "completions" else None,
        headers=extra,
        connecting=Connecting(stamps=stamps, verify=not insecure),
    )
    limit = longest_sequence(target, headers=extra)
    settings = CalibrationSettings(
        prompt_tokens=tuple(sorted(set(lengths or lengths_up_to(limit)))),
        repeats=repeats,
        streams=numbers,
        beside_streams=beside,
        seed=seed,
    )
    refuse_too_long(target, classes_of(settings), headers=extra)
    network = measure_round_trip(target, headers=extra)
    warm_up(target, headers=extra, prompt_tokens=min(settings.prompt_tokens))
    folder = run_folder.create(output, "calibrate")
    with reported_if_cut_off(folder, as_json=as_json), run_progress() as progress:
        carry_out_calibration(
            folder,
            settings,
            target,
            network,
            max_model_len=limit,
            headers=extra,
            timeout_s=timeout,
            on_progress=progress.show,
        )
    return show_report(folder, as_json=as_json)

"""`phasemeter lab serve`: the embedded reference engine, one process on one core."""

from __future__ import annotations

from pathlib import Path

import click

from phasemeter.core.errors import UsageError


@click.group("lab")
def command() -> None:
    """The lab engine: a real transformer on a CPU core, to measure against without a GPU."""


@command.command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="0 picks a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--policy",
    type=click.Choice(["mixed", "chunked", "prefill-first"]),
    default="mixed",
    show_default=True,
    help="How prefill and decode share the engine's steps.",
)
@click.option(
    "--role",
    type=click.Choice(["both", "prefill", "decode", "elastic"]),
    default="both",
    show_default=True,
    help="Whole requests, one leg of separated serving, or all of these in turns.",
)
@click.option(
    "--token-budget",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Tokens a step of policy chunked.",
)
@click.option(
    "--max-num-seqs",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Sequences at a time.",
)
@click.option(
    "--max-model-len",
    type=click.IntRange(16, 32768),
    default=4096,
    show_default=True,
    help="Prompt and output tokens.",
)
@click.option(
    "--model-size", type=click.Choice(["base", "tiny"]), default="base", show_default=True
)
@click.option("--served-model-name", default="lab", show_default=True)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the weights."
)
@click.option("--cpu", type=click.IntRange(min=0), help="Core to pin the engine to.")
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="Append what the server knows of each request to this file.",
)
@click.option(
    "--lease-s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds a prefill instance holds a KV cache for its decode instance.",
)
def serve_command(truth: Path | None, **options: object) -> None:
    """Serve the OpenAI-compatible API (completions, chat, models, metrics) until interrupted."""
    from phasemeter.lab.config import EngineConfig
    from phasemeter.lab.process import use_one_blas_thread

    use_one_blas_thread()
    from phasemeter.lab.serve import serve

    try:
        serve(EngineConfig(truth_path=truth, **options))  # type: ignore[arg-type]
    except (ValueError, OSError) as fault:
        raise UsageError(str(fault)) from fault

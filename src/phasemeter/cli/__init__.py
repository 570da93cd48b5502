"""The command line: one file a command, imported only when it is called."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence

import click

from phasemeter.core.errors import PhasemeterError, UsageError

_COMMANDS = {
    "calibrate": "phasemeter.cli.calibrate",
    "demo": "phasemeter.cli.demo",
    "interference": "phasemeter.cli.interference",
    "lab": "phasemeter.cli.lab",
    "load": "phasemeter.cli.load",
    "plan": "phasemeter.cli.plan",
    "replay": "phasemeter.cli.replay",
    "report": "phasemeter.cli.report",
    "selfcheck": "phasemeter.cli.selfcheck",
}

_EXIT_USAGE, _EXIT_INTERRUPTED = 2, 130


class _LazyGroup(click.Group):
    """Imports a command's module, and what that needs, when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name]).command
        return command if isinstance(command, click.Command) else None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="phasemeter")
def cli() -> None:
    """Measure the prefill and decode phases of streamed LLM responses."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Exit status: 0 success, 1 a verdict or objective that was asked for fails, 2 bad usage or input
    (one line on standard error), 3 the run is invalid, 130 interrupted.
    """
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    # A shell starts background jobs with SIGINT ignored; a run must be stoppable there too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = cli.main(args=arguments, prog_name="phasemeter", standalone_mode=False)
    except click.ClickException as fault:
        return _say(fault.format_message(), _EXIT_USAGE)
    except UsageError as fault:
        return _say(str(fault), _EXIT_USAGE)
    except PhasemeterError as fault:
        return _say(str(fault), 1)
    except ModuleNotFoundError as fault:
        if (fault.name or "").startswith("phasemeter"):
            raise
        text = f"needs the package {fault.name}; install phasemeter[load,lab]"
        return _say(text, _EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", _EXIT_INTERRUPTED)
    except BrokenPipeError:
        return 0  # the reader of our output has seen enough
    except OSError as fault:
        if fault.filename is not None:
            raise
        return _say(f"output cannot be written ({fault.strerror})", _EXIT_USAGE)
    return status if isinstance(status, int) else 0


def _say(text: str, status: int) -> int:
    click.echo(f"phasemeter: {' '.join(text.split())}", err=True)
    return status

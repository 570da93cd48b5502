"""What one engine process is told: a frozen, validated configuration and its command line."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

ModelSize = Literal["base", "tiny"]
Policy = Literal["mixed", "chunked", "prefill-first"]
Role = Literal["both", "prefill", "decode", "elastic"]

MODEL_SIZES: tuple[ModelSize, ...] = get_args(ModelSize)
POLICIES: tuple[Policy, ...] = get_args(Policy)
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one lab engine process.

    Attributes:
        model_size: `base` (24 M parameters) for measuring, `tiny` for tests.
        seed: Seed of the random weights; the same seed gives the same weights in every process.
        policy: How a step is filled, see `phasemeter.lab.schedule`.
        role: `both` serves whole requests; `prefill` and `decode` serve one leg of a hand-off;
            `elastic` serves all of these in turns, see `phasemeter.lab.elastic`.
        token_budget: Tokens per step, used by policy `chunked` only; more than `max_num_seqs`.
        max_num_seqs: KV cache slots, so sequences served or held at a time.
        max_model_len: Longest prompt plus output, in tokens.
        host: Address to listen on.
        port: Port to listen on; 0 picks a free one, reported by the ready line.
        cpu: Core to pin the process to; None leaves the affinity alone.
        served_model_name: Model name that requests must give.
        truth_path: File to which one JSON line a finished request is appended; None for no file.
        lease_s: Seconds that a prefill instance holds a KV cache for a decode instance.
        exit_with_parent: Exit when the process that started this one is gone.

    Raises:
        ValueError: A field is out of its range; the message names the field.
    """

    model_size: ModelSize = "base"
    seed: int = 0
    policy: Policy = "mixed"
    role: Role = "both"
    token_budget: int = 256
    max_num_seqs: int = 16
    max_model_len: int = 4096
    host: str = "127.0.0.1"
    port: int = 0
    cpu: int | None = None
    served_model_name: str = "lab"
    truth_path: Path | None = None
    lease_s: float = 30.0
    exit_with_parent: bool = False

    def __post_init__(self) -> None:
        _require_choice("model_size", self.model_size, MODEL_SIZES)
        _require_choice("policy", self.policy, POLICIES)
        _require_choice("role", self.role, ROLES)
        _require_between("seed", self.seed, 0, 2**32 - 1)
        _require_between("max_num_seqs", self.max_num_seqs, 1, 256)
        _require_between("max_model_len", self.max_model_len, 16, 32768)
        _require_between("port", self.port, 0, 65535)
        _require_between("token_budget", self.token_budget, 1, 65536)
        if self.policy == "chunked" and self.token_budget <= self.max_num_seqs:
            # Running decodes come first: with less, a full batch would starve prompts for ever.
            msg = (
                f"token_budget must be more than max_num_seqs ({self.max_num_seqs}), "
                f"got {self.token_budget!r}"
            )
            raise ValueError(msg)
        if self.role == "elastic" and self.max_num_seqs < 2:
            msg = f"max_num_seqs must be 2 or more for role elastic, got {self.max_num_seqs!r}"
            raise ValueError(msg)
        if not (math.isfinite(self.lease_s) and self.lease_s > 0):
            msg = f"lease_s must be a finite number > 0, got {self.lease_s!r}"
            raise ValueError(msg)
        if self.cpu is not None:
            _require_between("cpu", self.cpu, 0, 4095)
        if not self.host:
            msg = "host must not be empty"
            raise ValueError(msg)
        if not self.served_model_name:
            msg = "served_model_name must not be empty"
            raise ValueError(msg)

    def to_args(self) -> list[str]:
        """Return the command-line flags that `parse_args` turns back into this configuration."""
        args = [
            f"--model-size={self.model_size}",
            f"--seed={self.seed}",
            f"--policy={self.policy}",
            f"--role={self.role}",
            f"--token-budget={self.token_budget}",
            f"--max-num-seqs={self.max_num_seqs}",
            f"--max-model-len={self.max_model_len}",
            f"--host={self.host}",
            f"--port={self.port}",
            f"--served-model-name={self.served_model_name}",
            f"--lease-s={self.lease_s!r}",
        ]
        if self.cpu is not None:
            args.append(f"--cpu={self.cpu}")
        if self.truth_path is not None:
            args.append(f"--truth={self.truth_path}")
        if self.exit_with_parent:
            args.append("--exit-with-parent")
        return args


def parse_args(argv: Sequence[str]) -> EngineConfig:
    """Build a configuration from command-line flags.

    Raises:
        ValueError: A value is out of its range.
        SystemExit: Unknown flag or a value of the wrong type (code 2), or `--help` (code 0).
    """
    given = vars(_parser().parse_args(argv))
    return EngineConfig(**given)


def _parser() -> argparse.ArgumentParser:
    default = EngineConfig()
    parser = argparse.ArgumentParser(
        prog="python -m phasemeter.lab",
        description="Serve a small real transformer on one core, OpenAI-compatible.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model-size", choices=MODEL_SIZES, default=default.model_size, help="weights preset")
    add("--seed", type=int, default=default.seed, help="seed of the random weights")
    add("--policy", choices=POLICIES, default=default.policy, help="how a step is filled")
    add("--role", choices=ROLES, default=default.role, help="whole requests or one leg")
    add("--token-budget", type=int, default=default.token_budget, help="tokens a chunked step")
    add("--max-num-seqs", type=int, default=default.max_num_seqs, help="KV cache slots")
    add("--max-model-len", type=int, default=default.max_model_len, help="prompt + output tokens")
    add("--host", default=default.host, help="address to listen on")
    add("--port", type=int, default=default.port, help="0 picks a free port")
    add("--cpu", type=int, default=None, help="core to pin to")
    add("--served-model-name", default=default.served_model_name, help="name requests give")
    add("--truth", type=Path, default=None, dest="truth_path", help="append server truth here")
    add("--lease-s", type=float, default=default.lease_s, help="how long a hand-off is held")
    add("--exit-with-parent", action="store_true", help="exit when the parent process is gone")
    return parser


def _require_choice(field: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        msg = f"{field} must be one of {', '.join(choices)}, got {value!r}"
        raise ValueError(msg)


def _require_between(field: str, value: int, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:  # refuses True and 8.0
        msg = f"{field} must be an integer from {low} to {high}, got {value!r}"
        raise ValueError(msg)

"""A calibration: what is sent to a server that does nothing else.

prompts: unique prompts of several lengths, one at a time and in random order, one token each. decode: streams
without prompts, at rising numbers. beside: the longer prompts beside a few streams, from whose steps the
token budget follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from phasemeter.analysis.calibration import BESIDE, DECODE, PROMPTS
from phasemeter.core.errors import UsageError
from phasemeter.load.plan import Plan, UserFlow
from phasemeter.load.workload import RequestClass

FEWEST_LENGTHS = 6
FEWEST_REPEATS = 5
DEFAULT_LENGTHS = (128, 256, 512, 1024, 2048, 3072, 4096)

_DECODE_PROMPT_TOKENS = 32
_BESIDE_OUTPUT_TOKENS = 4
_BESIDE_TURNS = 2
_BESIDE_LENGTHS = 4
_LEAD_S = 1.5
_LIMIT_S = 1_800.0


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """How a calibration is run.

    Attributes:
        prompt_tokens: Lengths of the prompts, rising; at least six.
        repeats: Prompts of each length, at least five.
        streams: Numbers of streams whose steps are measured.
        output_tokens: Tokens of each of those streams.
        beside_streams: Streams beside which prompts are sent for the token budget; 0 leaves that out.
        seed: Source of the order.
    """

    prompt_tokens: tuple[int, ...] = DEFAULT_LENGTHS
    repeats: int = FEWEST_REPEATS
    streams: tuple[int, ...] = (1, 2, 4, 8)
    output_tokens: int = 64
    beside_streams: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        lengths = self.prompt_tokens
        if len(set(lengths)) < FEWEST_LENGTHS or min(lengths) < 1:
            msg = (
                f"--prompt-tokens: {','.join(map(str, lengths))}; accepted: at least "
                f"{FEWEST_LENGTHS} different lengths, such as 128,256,512,1024,2048,4096"
            )
            raise UsageError(msg)
        if self.repeats < FEWEST_REPEATS:
            msg = f"--repeats: {self.repeats}; accepted: at least {FEWEST_REPEATS}"
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a calibration.

    Attributes:
        condition: What is measured.
        label: The same for the progress bar.
        plan: What is sent.
        requests: How many requests end it; None where time does.
    """

    condition: str
    label: str
    plan: Plan
    requests: int | None


def lengths_up_to(max_model_len: int | None) -> tuple[int, ...]:
    """Return the default lengths that fit a server, with its own longest in place of those that do not.

    Args:
        max_model_len: Longest sequence that the server takes, output included; None where unknown.
    """
    room = DEFAULT_LENGTHS[-1] if max_model_len is None else max_model_len - _BESIDE_OUTPUT_TOKENS
    fitting = [one for one in DEFAULT_LENGTHS if one <= room]
    if len(fitting) == len(DEFAULT_LENGTHS):
        return tuple(fitting)
    # Shorter ranges still get six lengths: halvings of the longest that fits.
    halved = {max(room >> shift, 1) for shift in range(FEWEST_LENGTHS + 1)}
    wanted = sorted({*fitting, room} if len(fitting) >= FEWEST_LENGTHS - 1 else halved)
    return tuple(wanted)


def idle_stages(settings: CalibrationSettings) -> list[Stage]:
    """Return the stages with prompts alone and with streams alone."""
    return [
        _prompts(settings),
        *(_decode(settings, streams) for streams in settings.streams),
    ]


def _prompts(settings: CalibrationSettings) -> Stage:
    order = [
        RequestClass(f"prompt-{tokens}", tokens, 1)
        for tokens in settings.prompt_tokens
        for _ in range(settings.repeats)
    ]
    Random(settings.seed).shuffle(order)
    flow = UserFlow(
        name="prompts",
        mix=tuple(order),
        users=1,
        start_s=0.0,
        stop_s=_LIMIT_S,
        max_requests=len(order),
        in_turn=True,
        tags={"condition": PROMPTS},
    )
    return Stage(PROMPTS, "prompts alone", Plan((flow,), _LIMIT_S, 0.0, settings.seed), len(order))


def _decode(settings: CalibrationSettings, streams: int) -> Stage:
    wanted = RequestClass(f"decode-{streams}", _DECODE_PROMPT_TOKENS, settings.output_tokens)
    flow = UserFlow(
        name=f"decode-{streams}",
        mix=(wanted,),
        users=streams,
        start_s=0.0,
        stop_s=_LIMIT_S,
        max_requests=streams,
        tags={"condition": DECODE, "streams": str(streams)},
    )
    label = f"{streams} stream{'s' if streams > 1 else ''}"
    return Stage(DECODE, label, Plan((flow,), _LIMIT_S, 0.0, settings.seed), streams)


def beside_stage(
    settings: CalibrationSettings, longest_ms: float, step_ms: float, max_model_len: int | None
) -> Stage:
    """Return the stage with prompts beside streams, sized by what the stages before it showed.

    Args:
        settings: How the calibration is run.
        longest_ms: `ttft_wire` of the longest prompt.
        step_ms: A step with that many streams.
        max_model_len: Longest sequence that the server takes; None where unknown.
    """
    lengths = settings.prompt_tokens[-_BESIDE_LENGTHS:]
    prompts = [
        RequestClass("beside", tokens, _BESIDE_OUTPUT_TOKENS)
        for _ in range(_BESIDE_TURNS)
        for tokens in lengths
    ]
    # Prompts beside streams take up to three times as long as alone; time left over is not used.
    each_s = (3 * longest_ms + 20 * step_ms) / 1e3
    length_s = _LEAD_S + 20 * step_ms / 1e3 + len(prompts) * each_s
    most = (max_model_len or DEFAULT_LENGTHS[-1]) - _DECODE_PROMPT_TOKENS
    output = max(min(round(length_s * 1e3 / step_ms), most, 2_000), 16)
    tags = {"condition": BESIDE}
    streams = UserFlow(
        name="streams",
        mix=(RequestClass("streams", 8, output),),
        users=settings.beside_streams,
        start_s=0.0,
        stop_s=length_s,
        spread_s=_LEAD_S / 3,
        tags=tags,
    )
    injected = UserFlow(
        name="beside",
        mix=tuple(prompts),
        users=1,
        start_s=_LEAD_S + 20 * step_ms / 1e3,
        stop_s=length_s,
        max_requests=len(prompts),
        in_turn=True,
        tags=tags,
    )
    # The streams are cut off at the end: nothing of theirs is waited for.
    plan = Plan((streams, injected), length_s, 0.0, settings.seed)
    return Stage(BESIDE, f"prompts beside {settings.beside_streams} streams", plan, None)


def classes_of(settings: CalibrationSettings) -> Sequence[RequestClass]:
    """Return the largest classes that a calibration asks for, to be compared with the server's limit."""
    longest = max(settings.prompt_tokens)
    return (
        RequestClass(f"prompt-{longest}", longest, _BESIDE_OUTPUT_TOKENS),
        RequestClass("decode", _DECODE_PROMPT_TOKENS, settings.output_tokens),
    )

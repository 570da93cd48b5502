"""Request classes and the mix they are drawn from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from phasemeter.core.errors import UsageError

_CLASS = re.compile(
    r"(?P<name>[A-Za-z][\w-]*)=(?P<share>\d+(?:\.\d+)?)%:(?P<prompt>\d+)/(?P<output>\d+)"
)
_FORM = "NAME=SHARE%:PROMPT_TOKENS/OUTPUT_TOKENS[,...], for instance short=60%:256/128"


@dataclass(frozen=True, slots=True)
class RequestClass:
    """Requests of one kind.

    Attributes:
        name: Label in reports.
        prompt_tokens: Length of the prompt.
        output_tokens: Tokens to generate.
        share: Weight in a mix; weights of a mix need not add up to 1.
    """

    name: str
    prompt_tokens: int
    output_tokens: int
    share: float = 1.0


def parse_mix(text: str) -> tuple[RequestClass, ...]:
    """Read a mix such as `short=60%:256/128,long=40%:3000/100`.

    Raises:
        UsageError: If the text is not of that form, a name comes twice, a length is 0 or the shares
            do not add up to 100 %.
    """
    classes: list[RequestClass] = []
    for item in text.split(","):
        match = _CLASS.fullmatch(item.strip())
        if match is None:
            msg = f"--mix: {item.strip()!r} is not a request class; accepted: {_FORM}"
            raise UsageError(msg)
        prompt_tokens, output_tokens = int(match["prompt"]), int(match["output"])
        if prompt_tokens < 1 or output_tokens < 1:
            msg = (
                f"--mix: {item.strip()!r} has a length of 0; accepted: lengths of at least 1 token"
            )
            raise UsageError(msg)
        share = float(match["share"]) / 100
        classes.append(RequestClass(match["name"], prompt_tokens, output_tokens, share))
    names = [one.name for one in classes]
    if len(set(names)) < len(names):
        msg = f"--mix: a class name comes twice in {text!r}; accepted: one entry a name"
        raise UsageError(msg)
    total = sum(one.share for one in classes)
    if abs(total - 1) > 0.005:
        msg = f"--mix: the shares add up to {total:.1%}; accepted: 100 %"
        raise UsageError(msg)
    return tuple(classes)


def class_at(mix: Sequence[RequestClass], point: float) -> RequestClass:
    """Return the class whose share of [0, 1) holds a point."""
    left = point * sum(one.share for one in mix)
    for one in mix:
        left -= one.share
        if left < 0:
            return one
    return mix[-1]


def draw_class(mix: Sequence[RequestClass], rng: Random) -> RequestClass:
    """Draw a class with the probability of its share."""
    if len(mix) == 1:
        return mix[0]
    return rng.choices(mix, weights=[one.share for one in mix])[0]

"""What one engine step computes: the three policies, as pure decisions.

All are first come, first served, and a request keeps its cache slot until it ends.

`mixed`
    A step takes, in order, whole prompts as long as they total at most `max_model_len` tokens (one
    at least), and one token of every running sequence. Running sequences get their next token
    only when the step's prompts are done: a gap grows by the time of the prompts that joined.
`chunked`
    A step has `token_budget` tokens: one for every running sequence first, the rest for prompts
    in order, a prompt being cut where the budget ends. A gap is bounded by the budget, and a
    prompt takes as many steps as it needs.
`prefill-first`
    As long as any prompt waits for which there is a slot, steps hold prompts only (whole, same
    limit as `mixed`) and running sequences stand still. A gap is the time of all prompts that
    arrived meanwhile.

A pulled prompt has one token left to compute and counts as a running sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasemeter.lab.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from phasemeter.lab.config import Policy

Work = list[tuple[Request, int]]
"""Requests and how many of their pending tokens to compute."""


def plan_step(
    policy: Policy,
    *,
    decodes: Sequence[Request],
    prompts: Sequence[Request],
    token_budget: int,
    max_model_len: int,
) -> Work:
    """Choose the work of the next step.

    Args:
        policy: See the module.
        decodes: Requests with one token to compute on top of their cache.
        prompts: Requests with prompt tokens to compute and a slot to put them in, in order.
        token_budget: Tokens of a chunked step.
        max_model_len: Most prompt tokens of a step under the other policies.

    Returns:
        The work in the order of computation, prompts before running sequences; may be empty.
    """
    running: Work = [(request, 1) for request in decodes]
    if policy == "chunked":
        return _cut_to(token_budget - len(running), prompts) + running
    whole = _whole_up_to(max_model_len, prompts)
    if policy == "prefill-first" and whole:
        return whole
    return whole + running


def _cut_to(budget: int, prompts: Sequence[Request]) -> Work:
    taken: Work = []
    for request in prompts:
        if budget <= 0:
            break
        tokens = min(request.pending_tokens, budget)
        taken.append((request, tokens))
        budget -= tokens
    return taken


def _whole_up_to(limit: int, prompts: Sequence[Request]) -> Work:
    taken: Work = []
    for request in prompts:
        limit -= request.pending_tokens
        if limit < 0 and taken:
            break
        taken.append((request, request.pending_tokens))
    return taken


def pack_passes(work: Work, max_rows: int) -> list[Work]:
    """Cut a step's work, in order, into forward passes of at most `max_rows` tokens each."""
    passes: list[Work] = [[]]
    room = max_rows
    for request, tokens in work:
        left = tokens
        while left > 0:
            if room == 0:
                passes.append([])
                room = max_rows
            taken = min(left, room)
            passes[-1].append((request, taken))
            left -= taken
            room -= taken
    return passes

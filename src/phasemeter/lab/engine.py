"""The engine: continuous batching of requests over one model and one KV cache.

There is no prefix cache: every prompt token is computed, or pulled from a prefill instance.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.lab.elastic import ElasticRole, may_hold
from phasemeter.lab.handoff import HandoffError, KVPuller, PublishedCache
from phasemeter.lab.kvcache import KVCache
from phasemeter.lab.model import MAX_ROWS, Model, Segment
from phasemeter.lab.request import Failed, PrefillStep
from phasemeter.lab.schedule import pack_passes, plan_step
from phasemeter.lab.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from phasemeter.lab.config import EngineConfig, Role
    from phasemeter.lab.request import Request, TokenOut


@dataclass(frozen=True, slots=True)
class StepTruth:
    """What one step computed, and when; `prefill_tokens` are all prompt tokens in it.

    `role` is the engine's, or the turn that an elastic engine took.
    """

    start_ns: int
    end_ns: int
    prefill_tokens: int
    decode_tokens: int
    role: Role = "both"


class Engine:
    """Serves requests step by step on the calling thread.

    Args:
        config: Settings; pinning, port and files are the server's business.
        clock: Monotonic nanoseconds.

    Raises:
        ValueError: There is not enough memory for the cache.
    """

    def __init__(self, config: EngineConfig, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.config = config
        self.shape = shape_of(config.model_size)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._clock = clock
        self._free_slots = list(range(config.max_num_seqs))
        self._model = Model(self.shape, config.seed, config.max_model_len)
        slots, max_len = config.max_num_seqs, config.max_model_len
        self.published: PublishedCache | None = None
        self._puller: KVPuller | None = None
        self.elastic = ElasticRole(slots) if config.role == "elastic" else None
        if config.role in ("prefill", "elastic"):
            lease_ns = int(config.lease_s * 1e9)
            self.published = PublishedCache(self.shape, config.seed, slots, max_len, lease_ns)
            self._cache = self.published.cache
        else:
            self._cache = KVCache.private(self.shape, slots, max_len)
        if config.role in ("decode", "elastic"):
            self._puller = KVPuller(self.shape, config.seed, self._cache)

    @property
    def has_work(self) -> bool:
        """Whether any request is unfinished."""
        return bool(self.waiting or self.running)

    @property
    def role(self) -> Role:
        """Present role: the configured one, or the turn of an elastic engine."""
        return self.config.role if self.elastic is None else self.elastic.turn

    @property
    def used_slots(self) -> int:
        """Cache slots in use, those held for a hand-off included."""
        return self.config.max_num_seqs - len(self._free_slots)

    @property
    def cached_tokens(self) -> int:
        """Tokens in the cache, of running requests and of those held for a hand-off."""
        held = self.published.held_tokens if self.published is not None else 0
        return held + sum(request.computed_tokens for request in self.running)

    def submit(self, request: Request) -> None:
        """Queue a request, whose prompt and output must fit `max_model_len`."""
        request.internal_id = f"{request.request_id}-{uuid.uuid4().hex[:8]}"
        self.waiting.append(request)

    def cancel(self, request: Request) -> None:
        """End a request; its slot is free from the next step on. Ignored when it has ended."""
        request.cancelled = True

    def warm_up(self) -> None:
        """Compute once what large and small steps compute, so that the first request does not pay.

        Only before the first request: it writes into a cache slot.
        """
        tokens = np.zeros(min(MAX_ROWS, self.config.max_model_len), dtype=np.int32)
        for count in (len(tokens), 1):
            segment = Segment(0, 0, tokens[:count], wants_logits=True)
            for _ in self._model.forward([segment], self._cache):
                pass

    def close(self) -> None:
        """Free shared memory. Idempotent."""
        if self.published is not None:
            self.published.close()

    def step(self) -> StepTruth | None:
        """Compute one step without pause; None when there was nothing to compute."""
        parts = self.step_parts()
        while True:
            try:
                next(parts)
            except StopIteration as stop:
                truth: StepTruth | None = stop.value
                return truth

    def step_parts(self) -> Generator[None, None, StepTruth | None]:
        """Compute one step, pausing now and then during long prefills.

        Requests may be submitted and cancelled during a pause; that has effect in the next step.
        Tokens are delivered when the whole step is computed.

        Returns:
            What was computed; None when there was nothing to compute.
        """
        self._release_slots()
        self._pull_waiting()
        work = self._plan()
        if not work:
            return None
        start_ns = self._clock()
        self._start([request for request, _ in work if request.slot is None], start_ns)
        prompts = [(request, tokens) for request, tokens in work if request.is_prefilling]
        outputs = []
        for rows in pack_passes(work, MAX_ROWS):
            outputs += yield from self._compute(rows)
        end_ns = self._clock()
        for request, tokens in prompts:
            request.prefill_steps.append(PrefillStep(start_ns, end_ns, tokens))
        for request, output in outputs:
            self._deliver(request, output, end_ns)
        prefill_tokens = sum(tokens for _, tokens in prompts)
        decode_tokens = len(work) - len(prompts)
        return StepTruth(start_ns, end_ns, prefill_tokens, decode_tokens, self.role)

    def _release_slots(self) -> None:
        for request in [r for r in (*self.running, *self.waiting) if r.cancelled]:
            self._drop(request, Failed(None))
        if self.published is not None:
            self._free_slots.extend(self.published.collect_freed(self._clock()))

    def _drop(self, request: Request, why: Failed) -> None:
        if request.slot is None:
            self.waiting.remove(request)
        else:
            self.running.remove(request)
            self._free_slots.append(request.slot)
        request.deliver(why)

    def _pull_waiting(self) -> None:
        if self._puller is None:
            return
        all_are_pulled = self.elastic is None
        for request in [r for r in self.waiting if all_are_pulled or r.remote is not None]:
            if not self._free_slots:
                return
            self._start([request], self._clock())
            try:
                self._pull(self._puller, request)
            except HandoffError as error:
                self._drop(request, Failed(str(error)))

    def _pull(self, puller: KVPuller, request: Request) -> None:
        if request.remote is None or request.slot is None:
            msg = "a decode instance was given a request without a hand-off"
            raise HandoffError(msg)
        puller.pull(request.remote, request.prompt, request.slot)
        request.kv_pulled_ns = self._clock()
        # The last prompt token is computed again: its logits are the first token's distribution.
        request.computed_tokens = len(request.prompt) - 1

    def _plan(self) -> list[tuple[Request, int]]:
        prompts = [request for request in self.running if not request.is_decode_row]
        prompts += self._startable()
        decodes = [request for request in self.running if request.is_decode_row]
        if self.elastic is not None:
            turn = self.elastic.take(prompts=len(prompts), streams=len(decodes))
            prompts, decodes = (prompts, []) if turn == "prefill" else ([], decodes)
        return plan_step(
            self.config.policy,
            decodes=decodes,
            prompts=prompts,
            token_budget=self.config.token_budget,
            max_model_len=self.config.max_model_len,
        )

    def _startable(self) -> list[Request]:
        """Return the waiting prompts, in order, that may have a slot now."""
        slots = len(self._free_slots)
        if self.elastic is None or self.published is None:
            return list(islice(self.waiting, slots))
        held = self.published.held_slots + sum(request.holds_kv for request in self.running)
        hand_offs = may_hold(self.config.max_num_seqs) - held
        startable: list[Request] = []
        for request in self.waiting:
            if request.remote is not None:
                continue
            hand_offs -= request.holds_kv
            if len(startable) == slots or hand_offs < 0:
                break
            startable.append(request)
        return startable

    def _start(self, requests: Sequence[Request], now_ns: int) -> None:
        """Move requests, the first of those waiting, into slots."""
        for request in requests:
            self.waiting.remove(request)
            self.running.append(request)
            request.slot = self._free_slots.pop()
            request.scheduled_ns = now_ns

    def _compute(
        self, rows: Sequence[tuple[Request, int]]
    ) -> Generator[None, None, list[tuple[Request, TokenOut]]]:
        segments, complete = [], []
        for request, tokens in rows:
            is_complete = tokens == request.pending_tokens
            segments.append(
                Segment(
                    slot=request.slot if request.slot is not None else -1,
                    start=request.computed_tokens,
                    tokens=request.next_tokens(tokens),
                    wants_logits=is_complete,
                )
            )
            if is_complete:
                complete.append(request)
        logits = yield from self._model.forward(segments, self._cache)
        for request, tokens in rows:
            request.computed_tokens += tokens
        return [(r, r.draw(row)) for r, row in zip(complete, logits, strict=True)]

    def _deliver(self, request: Request, output: TokenOut, now_ns: int) -> None:
        if request.first_token_ns is None:
            request.first_token_ns = now_ns
        request.last_token_ns = now_ns
        if request.cancelled:
            return
        if output.finish_reason is not None and request.slot is not None:
            self.running.remove(request)
            if request.holds_kv and self.published is not None:
                self.published.hold(request.slot, request, now_ns)
            else:
                self._free_slots.append(request.slot)
        request.deliver(output)

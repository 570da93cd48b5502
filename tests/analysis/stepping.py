"""An engine on paper: steps at known times, streams that get a token in each, prompts cut into chunks."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from phasemeter.core.timeline import Usage
from tests.analysis.run_factory import make_timeline


class PaperEngine:
    """Decode steps of `decode_ms`; a chunk adds `token_ms` for each of its tokens.

    Streams run from the first step to the last. Tokens of a step leave one after the other, `jitter_ms`
    at most after its end.
    """

    def __init__(
        self, *, streams=4, budget=256, decode_ms=10.0, token_ms=0.1, jitter_ms=1.0, seed=1
    ):
        self.budget = budget
        self.decode_ms, self.token_ms, self.jitter_ms = decode_ms, token_ms, jitter_ms
        self.rng = Random(seed)
        self.now_ms = 100.0
        self.streams = [[] for _ in range(streams)]
        self.prompts = []
        self.step_ms = []
        self.chunks = {}

    def _step(self, chunk=0):
        length_ms = self.decode_ms + self.token_ms * chunk
        self.now_ms += length_ms
        self.step_ms.append(length_ms)
        for arrivals in self.streams:
            arrivals.append(self.now_ms + self.rng.uniform(0, self.jitter_ms))

    def decode(self, steps):
        for _ in range(steps):
            self._step()

    def prompt(self, tokens, *, sent_share=0.5, output=1):
        """Send a prompt while a step is under way; it is computed from the next step on."""
        sent_ms = self.now_ms + sent_share * self.decode_ms
        self._step()
        left, chunks = tokens, 0
        while left:
            chunk = min(left, self.budget - len(self.streams))
            self._step(chunk)
            left -= chunk
            chunks += 1
        name = f"p{len(self.prompts)}"
        self.chunks[name] = chunks
        self.prompts.append((name, tokens, sent_ms, self.now_ms + self.rng.uniform(0, 0.5)))
        assert output == 1
        return chunks

    def timelines(self, **fields):
        made = [
            make_timeline(
                f"s{number}",
                start_ms=0,
                first_ms=arrivals[0],
                gaps_ms=[b - a for a, b in pairwise(arrivals)],
                tags={"class": "background", "instance": "0"},
                **fields,
            )
            for number, arrivals in enumerate(self.streams)
        ]
        for name, tokens, sent_ms, first_ms in self.prompts:
            timeline = make_timeline(
                name,
                start_ms=sent_ms,
                first_ms=first_ms,
                tags={"class": "injected", "instance": "0"},
                **fields,
            )
            object.__setattr__(timeline, "usage", Usage(input_tokens=tokens, output_tokens=1))
            made.append(timeline)
        return made

    @property
    def durations_ms(self):
        return self.step_ms[1:]

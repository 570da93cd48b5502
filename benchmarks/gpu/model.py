"""A model folder without weights: shape, tokenizer and limits; the servers fill in random numbers.

Timing needs a model of the right shape and no sense. The tokenizer is made here: byte-level BPE over
printable ASCII alone, so that every token of a random model is text by itself, and so an event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, product
from pathlib import Path
from string import ascii_lowercase

from benchmarks.hub_cache import merges_of, tokenizer_document

END = "<|end|>"
_BLANK = "\u0120"  # how a byte-level vocabulary writes the blank
_LETTERS = (_BLANK, *map(chr, range(33, 127)))
_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a Llama.

    Attributes:
        name: What it is called in results.
        hidden: Width of the residual stream.
        layers: Transformer blocks.
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: Width of a head.
        intermediate: Width of the feed-forward block.
        vocabulary: Tokens, the end mark included.
        max_tokens: Longest sequence.
        dtype: Type of the weights.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    max_tokens: int
    dtype: str

    @property
    def parameters(self) -> int:
        """Number of weights, embeddings and output layer both counted."""
        attention = self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        block = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return 2 * self.vocabulary * self.hidden + self.layers * block + self.hidden


# After the model's published configuration.
LLAMA_8B = Shape("llama-3.1-8b", 4096, 32, 32, 8, 128, 14336, 128_256, 8192, "bfloat16")
SMALL = Shape("small", 256, 6, 4, 2, 64, 704, 16_384, 4096, "float32")
SHAPES = {shape.name: shape for shape in (LLAMA_8B, SMALL)}


def write_model(folder: Path, shape: Shape) -> Path:
    """Write configuration and tokenizer of a model without weights; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    special = {"bos_token": END, "eos_token": END, "unk_token": END, "pad_token": END}
    documents = {
        "config.json": model_config(shape),
        # No end mark: an answer ends where the request says so.
        "generation_config.json": {"bos_token_id": shape.vocabulary - 1, "do_sample": False},
        "tokenizer.json": _tokenizer(shape.vocabulary),
        "tokenizer_config.json": {
            **special,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": shape.max_tokens,
            "clean_up_tokenization_spaces": False,
            "chat_template": _CHAT_TEMPLATE,
        },
        "special_tokens_map.json": special,
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return folder


def model_config(shape: Shape) -> dict[str, object]:
    """Return the content of `config.json`."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": shape.dtype,
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.max_tokens,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "tie_word_embeddings": False,
        "bos_token_id": shape.vocabulary - 1,
        "eos_token_id": shape.vocabulary - 1,
    }


def _tokenizer(size: int) -> dict[str, object]:
    """Return the content of `tokenizer.json`; other bytes than printable ASCII have no token."""
    words = tuple(islice(_words(), size - len(_LETTERS) - 1))
    document = tokenizer_document(words)
    tokens = [*_LETTERS, *("".join(pair) for pair in merges_of(words)), END]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    end, model = document["added_tokens"], document["model"]
    assert isinstance(end, list)
    assert isinstance(model, dict)
    return {
        **document,
        "added_tokens": [{**end[0], "id": vocabulary[END]}],
        "model": {**model, "vocab": vocabulary},
    }


def _words() -> Iterator[str]:
    """Yield all lower-case words, shorter ones first: each is an earlier one and a letter, so one merge."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))

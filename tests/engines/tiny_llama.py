"""Writes a small Llama with random weights whose every answer is printable text.

Usage: python tiny_llama.py FOLDER, with a `tokenizer.json` of byte-level BPE in it. Runs in the engine's
own environment, so it imports nothing of ours.

Random weights would sample bytes that are no text by themselves, and the end mark: answers of unknown
length with empty events. Here one channel of the residual stream is held constant, and the output layer
uses it to push those tokens down, as a trained model does. Everything else is left to chance, with a
seed, so that the work is that of a real model of this size.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 256, 10, 4, 2, 64, 704
MAX_TOKENS = 4096
_CONSTANT, _PUSHED_DOWN = 4.0, -200.0
_BLANK = "\u0120"  # how a byte-level vocabulary writes the blank


def printable(token: str) -> bool:
    """Tell whether a token is ASCII text by itself."""
    return all(letter == _BLANK or "!" <= letter <= "~" for letter in token)


def weights(vocabulary: dict[str, int], special: set[str], seed: int = 0) -> dict[str, np.ndarray]:
    """Return the tensors under the names of a Llama checkpoint."""
    chance = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 0.05) -> np.ndarray:
        return (chance.standard_normal((rows, columns)) * scale).astype(np.float32)

    embeddings = matrix(len(vocabulary), HIDDEN, 1.0)
    embeddings[:, 0] = _CONSTANT
    output = matrix(len(vocabulary), HIDDEN, 0.1)
    output[:, 0] = 0.0
    for token, number in vocabulary.items():
        if token in special or not printable(token):
            output[number, 0] = _PUSHED_DOWN
    tensors = {
        "model.embed_tokens.weight": embeddings,
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        "lm_head.weight": output,
    }
    for layer in range(LAYERS):
        into_stream = {
            "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_DIM),
            "mlp.down_proj": matrix(HIDDEN, INTERMEDIATE),
        }
        for one in into_stream.values():
            one[0] = 0.0  # nothing is added to the constant channel
        parts = {
            "self_attn.q_proj": matrix(HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "mlp.gate_proj": matrix(INTERMEDIATE, HIDDEN),
            "mlp.up_proj": matrix(INTERMEDIATE, HIDDEN),
            "input_layernorm": np.ones(HIDDEN, np.float32),
            "post_attention_layernorm": np.ones(HIDDEN, np.float32),
            **into_stream,
        }
        tensors |= {f"model.layers.{layer}.{name}.weight": one for name, one in parts.items()}
    return tensors


def main(folder: Path) -> None:
    """Write `model.safetensors` and `config.json` beside the tokenizer."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    special = {one["content"]: one["id"] for one in tokenizer["added_tokens"] if one["special"]}
    vocabulary = tokenizer["model"]["vocab"]
    end = next(iter(special.values()))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "vocab_size": len(vocabulary),
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": MAX_TOKENS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": end,
        "eos_token_id": end,
    }
    save_file(
        weights(vocabulary, set(special)),
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Writes a tiny tokenizer laid out as a hub cache, for load testers that insist on one, offline.

Usage: python -m benchmarks.hub_cache FOLDER, then HF_HOME=FOLDER HF_HUB_OFFLINE=1.

Byte-level BPE over the 256 bytes, in which every word that the truth server sends is one token, so a
tool that counts with it counts the tokens that were sent. It follows from the word list alone: nothing
is trained and nothing is fetched.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from phasemeter.testing.truth.answers import WORDS

REPOSITORY = "phasemeter/truth"
_END = "<|end|>"
_BLANK = "\u0120"  # how a byte-level vocabulary writes the blank
_MAX_TOKENS = 32_768
_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}{% endif %}"
)


def byte_letters() -> list[str]:
    """Return the printable letter that stands for each byte in GPT-2's byte-level vocabularies."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    letters, moved = [], 0
    for byte in range(256):
        if byte in printable:
            letters.append(chr(byte))
        else:
            letters.append(chr(256 + moved))
            moved += 1
    return letters


def merges_of(words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return merges, in order of rank, that join each word and the blank before it from left to right."""
    merges: dict[tuple[str, str], None] = {}
    for word in words:
        joined = _BLANK
        for letter in word:
            merges[joined, letter] = None
            joined += letter
    return list(merges)


def tokenizer_document(words: tuple[str, ...] = WORDS) -> dict[str, object]:
    """Return the content of `tokenizer.json`."""
    merges = merges_of(words)
    tokens = [*byte_letters(), *("".join(pair) for pair in merges), _END]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": vocabulary[_END],
                "content": _END,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [list(pair) for pair in merges],
        },
    }


def _files() -> dict[str, dict[str, object]]:
    tokenizer = tokenizer_document()
    end_id = 256 + len(merges_of(WORDS))
    special: dict[str, object] = {
        "bos_token": _END,
        "eos_token": _END,
        "unk_token": _END,
        "pad_token": _END,
    }
    return {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            **special,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": _MAX_TOKENS,
            "clean_up_tokenization_spaces": False,
            "chat_template": _CHAT_TEMPLATE,
        },
        "special_tokens_map.json": special,
        # Some tools read the model's shape before they take its tokenizer.
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": end_id + 1,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "num_hidden_layers": 1,
            "max_position_embeddings": _MAX_TOKENS,
            "bos_token_id": end_id,
            "eos_token_id": end_id,
        },
    }


def write_hub_cache(home: Path) -> Path:
    """Write the tokenizer of `REPOSITORY` below a folder that `HF_HOME` can name.

    Returns:
        The snapshot folder, which also works as a local tokenizer folder.

    Raises:
        OSError: If it cannot be written.
    """
    contents = {name: json.dumps(document, indent=1) for name, document in _files().items()}
    commit = hashlib.sha1("".join(contents.values()).encode(), usedforsecurity=False).hexdigest()
    repository = home / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True, exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    for name, content in contents.items():
        (snapshot / name).write_text(content)
    return snapshot


if __name__ == "__main__":
    print(write_hub_cache(Path(sys.argv[1])))

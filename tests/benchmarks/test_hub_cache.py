"""The tokenizer is laid out as a hub cache, and a word is a token."""

import json
from itertools import pairwise

from benchmarks.hub_cache import byte_letters, merges_of, tokenizer_document, write_hub_cache
from phasemeter.testing.truth.answers import WORDS, text_of


def tokenize(word, merges):
    """Byte-pair encoding of one word, as the definition has it: lowest rank first."""
    parts = list(word)
    while True:
        ranked = [
            (merges.index(pair), place)
            for place, pair in enumerate(pairwise(parts))
            if pair in merges
        ]
        if not ranked:
            return parts
        _, place = min(ranked)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


def test_every_word_with_its_blank_is_one_token():
    merges = merges_of(WORDS)

    assert all(tokenize(f"\u0120{word}", merges) == [f"\u0120{word}"] for word in WORDS)


def test_the_vocabulary_is_numbered_without_holes_and_has_every_byte():
    vocabulary = tokenizer_document()["model"]["vocab"]

    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    assert len(set(byte_letters())) == 256
    assert set(byte_letters()) <= set(vocabulary)


def test_the_folder_is_a_hub_cache(tmp_path):
    snapshot = write_hub_cache(tmp_path)
    repository = tmp_path / "hub" / "models--phasemeter--truth"

    assert snapshot == repository / "snapshots" / (repository / "refs" / "main").read_text()
    names = {path.name for path in snapshot.iterdir()}
    assert names == {
        "config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    vocabulary = json.loads((snapshot / "tokenizer.json").read_text())["model"]["vocab"]
    assert json.loads((snapshot / "config.json").read_text())["vocab_size"] == len(vocabulary)


def test_writing_twice_changes_nothing(tmp_path):
    assert write_hub_cache(tmp_path) == write_hub_cache(tmp_path)


def test_the_servers_text_is_made_of_these_words():
    assert text_of(29, 2) == f" {WORDS[29]} {WORDS[0]}"

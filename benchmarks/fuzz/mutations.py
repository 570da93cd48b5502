"""Small damages to bytes, of the kinds that find faults in parsers."""

from __future__ import annotations

from random import Random

_WORDS = (
    *(b"\r", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80"),
    *(b"data:", b"data: ", b"event: error\n", b"error: ", b": ", b"data: [DONE]\n\n", b"id: 1\n"),
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\\ud800", b"\\u0000", b'\\"'),
    *(b"null", b"true", b"false", b"0", b"-1", b"1e999", b"-0.0", b"NaN", b"Infinity", b"1.5"),
    *(b"9" * 30, b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b'"' * 9),
    *(b"0\r\n\r\n", b"ffffffffffffffffff\r\n", b"-1\r\n", b"5;x=y\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    *(b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n", b"content-encoding: gzip\r\n"),
    *(b'"error":{"type":7}', b'"usage":{"completion_tokens":', b'"choices":[{}]', b'"text":""'),
    *(b'"index":', b'"finish_reason":"stop"', b'"token_ids":[1,2]', b'"delta":{"content":"x"}'),
)


def mutated(data: bytes, random: Random) -> bytes:
    """Return the bytes with one to eight damages."""
    for _ in range(min(1 + int(random.expovariate(0.7)), 8)):
        data = _DAMAGES[random.randrange(len(_DAMAGES))](data, random)
    return data


def _flip(data: bytes, random: Random) -> bytes:
    if not data:
        return data
    place = random.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]


def _insert_word(data: bytes, random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.choice(_WORDS) + data[place:]


def _overwrite_with_word(data: bytes, random: Random) -> bytes:
    place, word = random.randint(0, len(data)), random.choice(_WORDS)
    return data[:place] + word + data[place + len(word) :]


def _remove(data: bytes, random: Random) -> bytes:
    start, end = _stretch(data, random)
    return data[:start] + data[end:]


def _repeat(data: bytes, random: Random) -> bytes:
    start, end = _stretch(data, random)
    return data[:end] + data[start:end] + data[end:]


def _move(data: bytes, random: Random) -> bytes:
    start, end = _stretch(data, random)
    rest = data[:start] + data[end:]
    place = random.randint(0, len(rest))
    return rest[:place] + data[start:end] + rest[place:]


def _cut_off(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _stretch(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(start + int(random.expovariate(0.05)) + 1, len(data))


_DAMAGES = (
    *(_flip, _flip, _insert_word, _insert_word, _insert_word, _overwrite_with_word),
    *(_remove, _repeat, _move, _cut_off),
)

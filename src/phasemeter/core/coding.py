"""Content codings of HTTP bodies, undone incrementally as the reads come in."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable

Decode = Callable[[bytes], bytes]

_ZLIB_HEADER_BYTES = 2


class UnsupportedCodingError(Exception):
    """The body's content coding cannot be undone here (unknown, or its library is missing)."""


class BrokenCodingError(Exception):
    """The bytes are not what the content coding promised; nothing after them can be read."""


def decoder_for(content_encoding: str) -> Decode | None:
    """Return an incremental decoder for a `content-encoding` value; None where there is no coding.

    Each call of the decoder takes the coded bytes of one read and returns what they release, which
    may be nothing (a gzip header) or several events (a server that flushes late). It raises
    `BrokenCodingError` for bytes that are not of the coding.

    Raises:
        UnsupportedCodingError: For a coding other than identity, gzip, deflate, br or zstd, for a
            combination of codings, and for br or zstd without the library that decodes it.
    """
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip"):
        return _checked(_Gzip().decode)
    if coding == "deflate":
        return _checked(_Deflate().decode)
    if coding == "br":
        return _checked(_optional("brotli", "Decompressor", "process"))
    if coding == "zstd":
        return _checked(_zstd())
    raise UnsupportedCodingError(coding)


def _checked(decode: Decode) -> Decode:
    """Each library has its own exception for broken input, and brotli's derives from Exception."""

    def decode_or_say(data: bytes) -> bytes:
        try:
            return decode(data)
        except Exception as fault:
            raise BrokenCodingError(str(fault)) from fault

    return decode_or_say


class _Gzip:
    """A gzip body is one or more members; a server may flush each event as one of its own."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def decode(self, data: bytes) -> bytes:
        released = self._member.decompress(data)
        while self._member.eof:
            # Zero bytes after a member are padding.
            rest = self._member.unused_data.lstrip(b"\0")
            if not rest:
                break
            self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            released += self._member.decompress(rest)
        return released


class _Deflate:
    """`deflate` means zlib framing, but some servers send a bare deflate stream."""

    def __init__(self) -> None:
        self._head = b""
        self._decompress: Decode | None = None

    def decode(self, data: bytes) -> bytes:
        if self._decompress is None:
            self._head += data
            if len(self._head) < _ZLIB_HEADER_BYTES:
                return b""
            data = self._head
            wrapped = zlib.decompressobj()
            try:
                released = wrapped.decompress(data)
            except zlib.error:
                self._decompress = zlib.decompressobj(-zlib.MAX_WBITS).decompress
            else:
                self._decompress = wrapped.decompress
                return released
        return self._decompress(data)


def _optional(module: str, factory: str, method: str) -> Decode:
    try:
        decoder = getattr(importlib.import_module(module), factory)()
    except ImportError as missing:
        raise UnsupportedCodingError(module) from missing
    decode: Decode = getattr(decoder, method)
    return decode


def _zstd() -> Decode:
    try:
        decompressor = importlib.import_module("zstandard").ZstdDecompressor()
    except ImportError as missing:
        msg = "zstd"
        raise UnsupportedCodingError(msg) from missing
    decode: Decode = decompressor.decompressobj().decompress
    return decode

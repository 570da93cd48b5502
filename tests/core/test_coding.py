"""Content codings are undone read by read."""

import gzip
import itertools
import sys
import types
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.coding import BrokenCodingError, UnsupportedCodingError, decoder_for


def raw_deflate(data):
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


CODERS = {
    "gzip": gzip.compress,
    "X-GZip ": gzip.compress,
    "gzip in members": lambda data: b"".join(
        gzip.compress(data[i : i + 7]) for i in range(0, 99, 7)
    ),
    "gzip padded": lambda data: gzip.compress(data) + b"\0" * 9,
    "deflate": zlib.compress,
    "deflate without header": raw_deflate,
}


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(sorted(CODERS)), st.binary(max_size=90), st.lists(st.integers(0, 200)))
def test_coded_bytes_cut_anywhere_give_the_plain_bytes(name, plain, cuts):
    coded = CODERS[name](plain)
    edges = [0, *sorted(cut for cut in cuts if cut < len(coded)), len(coded)]
    decode = decoder_for(name.split(" in ")[0].split(" padded")[0].split(" without")[0])
    assert decode is not None

    assert b"".join(decode(coded[a:b]) for a, b in itertools.pairwise(edges)) == plain


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_no_coding_needs_no_decoder(coding):
    assert decoder_for(coding) is None


@pytest.mark.parametrize("coding", ["rot13", "gzip, br", "compress"])
def test_a_coding_that_is_not_known_is_refused(coding):
    with pytest.raises(UnsupportedCodingError):
        decoder_for(coding)


@pytest.mark.parametrize(("coding", "module"), [("br", "brotli"), ("zstd", "zstandard")])
def test_a_coding_without_its_library_is_refused(coding, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(UnsupportedCodingError):
        decoder_for(coding)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_bytes_of_another_coding_are_refused(coding):
    decode = decoder_for(coding)
    assert decode is not None

    with pytest.raises(BrokenCodingError):
        decode(b"\xff" * 50)


def test_a_librarys_own_exception_becomes_ours(monkeypatch):
    class Decompressor:
        def process(self, data):
            raise Exception("brotli's own error derives from Exception alone")

    monkeypatch.setitem(sys.modules, "brotli", types.SimpleNamespace(Decompressor=Decompressor))
    decode = decoder_for("br")
    assert decode is not None

    with pytest.raises(BrokenCodingError):
        decode(b"x")


def test_a_gzip_body_cut_short_gives_what_has_arrived():
    flushing = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    coded = flushing.compress(b"first") + flushing.flush(zlib.Z_SYNC_FLUSH)
    decode = decoder_for("gzip")
    assert decode is not None

    assert decode(coded) == b"first"

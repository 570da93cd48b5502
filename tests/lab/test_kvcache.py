import numpy as np
import pytest

from phasemeter.lab.kvcache import KVCache
from phasemeter.lab.shape import shape_of

SHAPE = shape_of("tiny")


def test_a_buffer_of_the_stated_size_holds_the_cache():
    """Keys and values fill a given buffer without overlap and without rest."""
    buffer = memoryview(bytearray(KVCache.size_bytes(SHAPE, 2, 24)))
    cache = KVCache(SHAPE, 2, 24, buffer)
    cache.keys[...] = 1.0
    cache.values[...] = 2.0

    assert cache.keys.min() == cache.keys.max() == 1.0
    assert set(np.frombuffer(buffer, dtype=np.float32)) == {1.0, 2.0}


def test_copying_a_slot_takes_its_first_tokens_only():
    """Two of three tokens move from slot 1 to slot 0, layer by layer; the rest stays."""
    source, target = KVCache.private(SHAPE, 2, 24), KVCache.private(SHAPE, 1, 30)
    source.keys[1], source.values[1] = 3.0, 4.0

    layers = list(target.copy_slot(0, source, 1, 2))

    assert layers == list(range(SHAPE.layers))
    assert (target.keys[0, :, :, :, :2] == 3.0).all()
    assert (target.values[0, :, :, :2] == 4.0).all()
    assert not target.keys[0, :, :, :, 2:].any()
    assert not target.values[0, :, :, 2:].any()


def test_more_than_the_machine_has_is_refused():
    """Said at once, not by the system in the middle of a run."""
    with pytest.raises(ValueError, match="lower max_num_seqs or max_model_len"):
        KVCache.private(SHAPE, 10**6, 10**6)


def test_another_engines_cache_is_not_overwritten():
    """A reader's view keeps what is there; the owner's starts from zero."""
    buffer = memoryview(bytearray(KVCache.size_bytes(SHAPE, 1, 24)))
    KVCache(SHAPE, 1, 24, buffer).values[...] = 5.0

    assert KVCache(SHAPE, 1, 24, buffer, is_new=False).values.min() == 5.0
    assert KVCache(SHAPE, 1, 24, buffer).values.max() == 0.0

"""Labels follow the calling context."""

import asyncio

import pytest

from phasemeter.transports.tags import current_tags, tag


def test_labels_hold_inside_and_inner_ones_win():
    """And are gone outside."""
    with tag(feature="a", tier="free"):
        with tag(feature="b"):
            assert current_tags() == {"feature": "b", "tier": "free"}
        assert current_tags() == {"feature": "a", "tier": "free"}
    assert current_tags() == {}


def test_tasks_do_not_see_each_others_labels():
    """Each async context has its own."""

    async def worker(name, ready):
        with tag(feature=name):
            await ready.wait()
            return dict(current_tags())

    async def run():
        ready = asyncio.Event()
        tasks = [asyncio.create_task(worker(name, ready)) for name in "ab"]
        await asyncio.sleep(0)
        ready.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(run()) == [{"feature": "a"}, {"feature": "b"}]


@pytest.mark.parametrize("value", [1, None, b"x", ["a"]])
def test_a_value_that_is_not_text_is_refused(value):
    """One line: which label, what is accepted."""
    with pytest.raises(TypeError, match=r"tag feature: a value is str, got"), tag(feature=value):
        pass

"""The callback sink."""

from phasemeter.sinks.callback import CallbackSink


def test_the_function_gets_each_finished_timeline():
    """Nothing at the start, the timeline itself at the end."""
    seen = []
    sink = CallbackSink(seen.append)
    timeline = object()

    assert sink.started(object()) is None
    sink.finished(timeline, None)
    sink.close()

    assert seen == [timeline]

"""Token events kept by columns are a sequence of token events like any other."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from phasemeter.core.token_events import TokenEvent, TokenEvents

EVENTS = st.lists(
    st.builds(
        TokenEvent,
        st.integers(0, 99),
        st.sampled_from(["content", "reasoning"]),
        st.none() | st.integers(1, 4),
        st.integers(0, 9),
        st.booleans(),
    ),
    max_size=6,
)


@given(EVENTS)
def test_columns_and_back(events):
    columns = TokenEvents.of(events)

    assert list(columns) == events
    assert [columns[index] for index in range(len(columns))] == events
    assert columns == tuple(events)
    assert tuple(columns) == tuple(events)
    assert TokenEvents.of(columns) is columns
    assert pickle.loads(pickle.dumps(columns)) == events
    assert repr(columns) == repr(tuple(events))


@given(EVENTS, st.slices(6))
def test_a_part_of_them(events, part):
    assert TokenEvents.of(events)[part] == events[part]


@given(EVENTS, EVENTS)
def test_they_differ_where_an_event_does(events, others):
    assert (TokenEvents.of(events) == TokenEvents.of(others)) is (events == others)


def test_no_consumer_limited_them_where_nothing_is_said_of_it():
    columns = TokenEvents([5, 7], ["content", "content"], [None, 2], [0, 1])

    assert columns == (TokenEvent(5, "content", None, 0), TokenEvent(7, "content", 2, 1))
    assert columns[1:][0].consumer_limited is False

from random import Random

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.load.workload import RequestClass, draw_class, parse_mix


def test_a_mix_is_read_with_its_shares_and_lengths():
    mix = parse_mix("short=60%:256/128, long=40%:3000/100")

    assert mix == (
        RequestClass("short", 256, 128, 0.6),
        RequestClass("long", 3000, 100, 0.4),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "'nonsense' is not a request class"),
        ("", "'' is not a request class"),
        ("a=50%:1/1", "add up to 50.0%"),
        ("a=50%:1/1,a=50%:2/2", "comes twice"),
        ("a=100%:0/5", "length of 0"),
        ("a=100%:5", "is not a request class"),
        ("a=x%:5/5", "is not a request class"),
    ],
)
def test_a_malformed_mix_is_refused_with_what_is_wrong_and_what_is_accepted(text, says):
    with pytest.raises(UsageError) as refusal:
        parse_mix(text)

    assert says in str(refusal.value)
    assert str(refusal.value).startswith("--mix: ")
    assert "accepted: " in str(refusal.value)


def test_classes_are_drawn_in_proportion_to_their_shares():
    mix = parse_mix("a=75%:1/1,b=25%:1/1")
    rng = Random(5)

    drawn = [draw_class(mix, rng).name for _ in range(4_000)]

    # Binomial with n = 4000, p = 0.75: standard deviation 27; five of them are allowed.
    assert abs(drawn.count("a") - 3_000) < 140

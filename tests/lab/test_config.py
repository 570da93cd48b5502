from pathlib import Path

import pytest

from phasemeter.lab.config import EngineConfig, parse_args


def test_flags_carry_every_field():
    """to_args and parse_args are inverse, also for the optional fields."""
    config = EngineConfig(
        model_size="tiny",
        seed=3,
        policy="chunked",
        role="decode",
        token_budget=99,
        max_num_seqs=7,
        max_model_len=640,
        host="::1",
        port=8123,
        cpu=1,
        served_model_name="a b",
        truth_path=Path("truth.jsonl"),
        lease_s=0.1,
        exit_with_parent=True,
    )

    assert parse_args(config.to_args()) == config
    assert parse_args([]) == EngineConfig()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_size", "huge"),
        ("policy", "fair"),
        ("role", "router"),
        ("seed", -1),
        ("token_budget", 0),
        ("max_num_seqs", 0),
        ("max_num_seqs", 257),
        ("max_num_seqs", True),
        ("max_model_len", 15),
        ("port", 65536),
        ("lease_s", 0.0),
        ("lease_s", float("nan")),
        ("cpu", -1),
        ("host", ""),
        ("served_model_name", ""),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field, value):
    """The message begins with the field and tells the value."""
    with pytest.raises(ValueError, match=f"^{field} must") as error:
        EngineConfig(**{field: value})

    assert value == "" or repr(value) in str(error.value)


def test_a_chunked_budget_must_leave_room_for_prompts():
    """With 16 running sequences a budget of 16 would starve every prompt."""
    with pytest.raises(ValueError, match="token_budget must be more than max_num_seqs"):
        EngineConfig(policy="chunked", token_budget=16, max_num_seqs=16)

    assert EngineConfig(policy="mixed", token_budget=16, max_num_seqs=16).token_budget == 16

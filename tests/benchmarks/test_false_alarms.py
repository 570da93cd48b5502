"""Clean runs raise no alarm; the whole count is `python -m benchmarks.false_alarms`."""

import pytest

from benchmarks.false_alarms import clean_runs

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

# What else a loaded machine does to a client or a server is no false alarm: it is told rightly.
OF_THE_MACHINE = ("suspect: ", "client_stalls", "arrival_slots_missed", "rate_not_achieved")


def test_clean_runs_of_both_servers_raise_no_alarm(tmp_path):
    outcomes = list(clean_runs(tmp_path, 4, seconds=4))

    assert {(one.server, one.flow) for one in outcomes} == {
        (server, flow) for server in ("truth", "lab") for flow in ("users", "arrivals")
    }
    for outcome in outcomes:
        assert outcome.ok > 0
        assert [one for one in outcome.alarms if not one.startswith(OF_THE_MACHINE)] == []

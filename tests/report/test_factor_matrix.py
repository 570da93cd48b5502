"""Factors laid out as a matrix."""

from phasemeter.analysis.finding import Factor
from phasemeter.report.factor_matrix import factor_matrix


def factor(name, value=2.0, ci95=(1.5, 3.0)):
    return Factor(name, value, ci95, "of", "against")


def test_comparisons_become_columns_and_statistics_rows():
    """Two topologies and their comparison; what one of them lacks is a dash."""
    columns, rows = factor_matrix(
        [
            factor("mixed.inject.background.gap_p99", 12.34, (9.0, 120.4)),
            factor("separated.inject.background.gap_p99", 1.02, (0.9, 1.1)),
            factor("separated_vs_mixed.inject.background.gap_p99", None, None),
            factor("separated_vs_mixed.together.short.ttft_p50", 3.0, None),
        ]
    )

    assert columns == ["mixed / alone", "separated / alone", "separated / mixed"]
    assert [(row.condition, row.class_name, row.statistic) for row in rows] == [
        ("inject", "background", "gap_p99"),
        ("together", "short", "ttft_p50"),
    ]
    assert rows[0].cells == ("12.3 [9.00, 120]  ", "1.02 [0.90, 1.10] ~", "\N{EN DASH}")
    assert rows[1].cells == ("\N{EN DASH}", "\N{EN DASH}", "3.00")


def test_without_factors_there_is_nothing_to_lay_out():
    """A run that was cut off at once."""
    assert factor_matrix([]) == ([], [])

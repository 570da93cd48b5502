"""Experiments: what to run (plans) and what it showed (findings), both pure; and one runner."""

"""Finding the dialect by its name or by the path of a URL."""

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.dialects import BUILTIN, by_name, for_path


def test_each_built_in_dialect_is_found_by_its_name():
    assert [by_name(dialect.name) for dialect in BUILTIN] == list(BUILTIN)


def test_an_unknown_name_is_refused_with_the_names_that_are_accepted():
    with pytest.raises(UsageError, match=r"dialect: 'nope' is not known; accepted: openai.chat, "):
        by_name("nope")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "openai.chat"),
        ("/openai/deployments/x/chat/completions?api-version=1", "openai.chat"),
        ("/v1/completions", "openai.completions"),
        ("/v1/completions/", "openai.completions"),
    ],
)
def test_the_longest_matching_path_ending_decides(path, name):
    dialect = for_path(path)

    assert dialect is not None
    assert dialect.name == name


@pytest.mark.parametrize("path", ["/v1/embeddings", "", "/", "/v1/completions/x"])
def test_a_path_of_no_dialect_is_none(path):
    assert for_path(path) is None

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.load.prompts import TextLength
from phasemeter.load.target import Endpoint, RequestStyle, parse_endpoint


@pytest.mark.parametrize(
    ("url", "endpoint", "api"),
    [
        ("http://h:8000", Endpoint("http", "h", 8000, "/v1"), None),
        ("http://h:8000/v1/", Endpoint("http", "h", 8000, "/v1"), None),
        ("https://h/openai/v1", Endpoint("https", "h", 443, "/openai/v1"), None),
        ("http://h/v1/chat/completions", Endpoint("http", "h", 80, "/v1"), "chat"),
        ("http://h/v1/completions", Endpoint("http", "h", 80, "/v1"), "completions"),
        ("http://[::1]:81/v1", Endpoint("http", "::1", 81, "/v1"), None),
    ],
)
def test_a_url_is_taken_apart(url, endpoint, api):
    assert parse_endpoint(url) == (endpoint, api)


def test_an_ipv6_address_gets_its_brackets_back():
    assert parse_endpoint("http://[::1]:81/v1")[0].base_url == "http://[::1]:81/v1"


@pytest.mark.parametrize("url", ["nonsense", "ftp://h/x", "http://", "http://h:port/", "h:80"])
def test_what_is_no_url_is_refused_in_one_line(url):
    with pytest.raises(UsageError, match="accepted: http") as refusal:
        parse_endpoint(url)

    assert "\n" not in str(refusal.value)


def test_token_id_prompts_have_exactly_the_length_asked_for():
    body = RequestStyle("completions", "m", prompt_ids=True).body(300, 20, "salt")

    assert len(body["prompt"]) == 300  # type: ignore[arg-type]
    assert body["max_tokens"] == body["min_tokens"] == 20
    assert body["ignore_eos"] is True
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_prompts_differ_between_salts_and_agree_within_one():
    style = RequestStyle("completions", "m", prompt_ids=True)

    assert style.body(64, 1, "a")["prompt"] == style.body(64, 1, "a")["prompt"]
    assert style.body(64, 1, "a")["prompt"][:8] != style.body(64, 1, "b")["prompt"][:8]  # type: ignore[index]


def test_text_prompts_have_the_number_of_words_that_the_measured_length_asks_for():
    style = RequestStyle("chat", "m", text_length=TextLength(fixed_tokens=10, tokens_per_word=1.5))

    messages = style.body(100, 5, "salt")["messages"]

    # 10 + 1.5 x 60 = 100
    assert len(messages[0]["content"].split()) == 60  # type: ignore[index]


def test_a_plain_server_is_asked_without_extensions():
    style = RequestStyle("chat", "m", extensions=False)

    body = style.body(5, 7, "salt")

    assert set(body) == {
        "model",
        "messages",
        "max_tokens",
        "temperature",
        "stream",
        "stream_options",
    }
    assert body["stream_options"] == {"include_usage": True}


def test_a_query_goes_with_every_request_but_is_not_shown():
    endpoint, api = parse_endpoint("https://h/openai/deployments/d/chat/completions?api-version=1")

    assert api == "chat"
    assert endpoint.path("chat") == "/openai/deployments/d/chat/completions?api-version=1"
    assert endpoint.base_url == "https://h:443/openai/deployments/d"
    assert "api-version" not in repr(endpoint)


def test_credentials_in_a_url_are_refused_and_not_repeated():
    with pytest.raises(UsageError, match="credentials") as refusal:
        parse_endpoint("http://user:k3y@h/v1")

    assert "k3y" not in str(refusal.value)


def test_the_host_header_of_an_ipv6_address_has_brackets():
    assert parse_endpoint("http://[::1]:81/v1")[0].authority == "[::1]:81"

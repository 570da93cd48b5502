"""Which signals are read from an engine's metrics page; pages are written as the engines write them."""

import pytest

from phasemeter.telemetry import FLAVOURS, SGLANG, VLLM
from phasemeter.telemetry.page import parse_page

VLLM_PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 700.0
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 600.0
vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 100.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop"} 2.0
vllm:request_success_total{engine="0",finished_reason="length"} 5.0
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3"} 7.0
vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf"} 7.0
vllm:request_queue_time_seconds_count{engine="0"} 7.0
vllm:request_queue_time_seconds_sum{engine="0"} 1.4
# TYPE vllm:nixl_bytes_transferred histogram
vllm:nixl_bytes_transferred_count{engine="0"} 4.0
vllm:nixl_bytes_transferred_sum{engine="0"} 4096.0
vllm:kv_cache_usage_perc{engine="0"} NaN
python_gc_objects_collected_total{generation="0"} 12.0
"""

SGLANG_PAGE = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 2.0
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m"} 90.0
# TYPE sglang:cached_tokens_total counter
sglang:cached_tokens_total{cache_source="device",model_name="m"} 30.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 5.0
"""


def test_vllms_signals_are_sums_over_engines_and_of_the_labels_that_count():
    values = VLLM.read(parse_page(VLLM_PAGE))

    assert values == {
        "running_requests": 4.0,
        "prompt_tokens": 700.0,
        "prompt_tokens_computed": 600.0,
        "requests": 7.0,
        "queue_time_s": 1.4,
        "queue_time_count": 7.0,
        "kv_transfer_bytes": 4096.0,
    }  # what is not told, or is not a number, is left out


def test_sglangs_cached_tokens_are_prefix_cache_hits_whatever_tier_they_came_from():
    values = SGLANG.read(parse_page(SGLANG_PAGE))

    assert values == {
        "running_requests": 2.0,
        "prompt_tokens": 90.0,
        "prefix_cache_queries_tokens": 90.0,
        "prefix_cache_hits_tokens": 35.0,
    }


@pytest.mark.parametrize(("page", "name"), [(VLLM_PAGE, "vllm"), (SGLANG_PAGE, "sglang")])
def test_a_page_is_of_one_engine(page, name):
    parsed = parse_page(page)

    assert [one.name for one in FLAVOURS if one.speaks(parsed)] == [name]


def test_an_older_releases_name_is_found_where_the_newer_is_missing():
    page = parse_page('vllm:gpu_prefix_cache_hits_total{engine="0"} 8.0\n')

    assert VLLM.read(page) == {"prefix_cache_hits_tokens": 8.0}


def test_a_page_in_another_format_is_refused():
    with pytest.raises(ValueError, match=r".*"):
        parse_page("<html>no metrics { here</html>")

"""The GPU run's time plan, command lines and choice of server, without any server."""

import json
from dataclasses import replace

import pytest

from benchmarks.gpu.backends import (
    cache_gib,
    choose,
    transformers_deployment,
    vllm_deployment,
)
from benchmarks.gpu.commands import rates_for
from benchmarks.gpu.hardware import Gpu, parse_gpus, parse_samples, query_command, under_load
from benchmarks.gpu.model import LLAMA_8B, SHAPES, SMALL, model_config, write_model
from benchmarks.gpu.time_plan import CLOSE_S, PROBE_S, SIZES, STOP_S, Wanted, time_plan
from phasemeter.load.workload import parse_mix

SIZE = SIZES["llama-3.1-8b"]
TRANSFORMERS = (
    Wanted("fifo", "inject"),
    Wanted("prefill_first", "inject"),
    Wanted("fifo", "mix"),
    Wanted("fifo", "ramp-mix"),
    Wanted("fifo", "ramp-long"),
)
HAS_ALL = dict.fromkeys(
    ("vllm", "nixl", "transformers", "torch", "fastapi", "uvicorn", "openai"), 1
)


def plan(budget_s=480.0, wanted=TRANSFORMERS, arms=("mixed",), start_s=70.0):
    return time_plan(budget_s, wanted, arms=arms, sizes=SIZE, start_s=start_s)


def gpu(index=0, memory_gib=140):
    told = dict.fromkeys(Gpu.__slots__)
    return Gpu(**{**told, "index": index, "name": "G", "memory_total_mib": memory_gib * 1024.0})


@pytest.mark.parametrize("budget_s", [200, 300, 480, 720, 2000])
@pytest.mark.parametrize("arms", [("mixed",), ("mixed", "separated")])
def test_no_plan_takes_longer_than_its_budget(budget_s, arms):
    made = plan(budget_s, arms=arms)

    assert made.total_s <= budget_s
    assert len(made.parts) + len(made.left_out) == len(TRANSFORMERS)
    ends_s = made.ends_s()
    assert ends_s == sorted(ends_s)
    if ends_s:
        assert ends_s[-1] + STOP_S + CLOSE_S == pytest.approx(made.total_s)
        assert ends_s[0] == made.start_s + PROBE_S + made.parts[0].limit_s


def test_eight_minutes_hold_every_part_on_one_topology():
    made = plan(480)

    assert [part.label for part in made.parts] == [
        "fifo/inject",
        "prefill_first/inject",
        "fifo/mix",
        "fifo/ramp-mix",
        "fifo/ramp-long",
    ]
    assert made.left_out == ()


def test_the_important_parts_come_first_when_time_is_short():
    assert [part.label for part in plan(240).parts][:2] == ["fifo/inject", "prefill_first/inject"]
    assert plan(100).parts == ()
    assert len(plan(100).left_out) == len(TRANSFORMERS)


def test_spare_time_becomes_rounds_and_then_length():
    short, long = plan(480), plan(900)

    assert {part.repeats for part in long.parts} == {2}
    for before, after in zip(short.parts, long.parts, strict=True):
        assert after.seconds >= before.seconds
        assert after.limit_s >= before.limit_s


def test_policies_are_measured_alike():
    for budget_s in range(260, 700, 20):
        injections = [part for part in plan(budget_s).parts if part.name == "inject"]
        assert len({(part.repeats, part.seconds) for part in injections}) == 1


def test_a_part_is_the_same_as_options_and_as_settings():
    by_name = {part.label: part for part in plan(900).parts}
    rates = {"rate_per_s": 3.5, "injections_per_s": 1.25}

    inject = by_name["fifo/inject"].options(**rates)
    assert inject[inject.index("--inject-tokens") + 1] == "512,1024,2048,4096"
    assert inject[inject.index("--inject-rate") + 1] == "1.25"
    mix = by_name["fifo/mix"]
    assert mix.options(**rates)[2:4] == ["--mix", "short=60%:256/128,long=40%:3000/100"]
    assert mix.settings.conditions == ("mix",)
    ramp = by_name["fifo/ramp-long"].options(**rates)
    assert ramp[ramp.index("--ramp-mix") + 1] == "long=100%:3000/100"
    assert ramp[ramp.index("--ramp-users") + 1] == "1,2,4,8,16,32"
    for part in by_name.values():
        options = part.options(**rates)
        assert options[options.index("--conditions") + 1] == part.settings.conditions[0]
        assert options[options.index("--repeats") + 1] == str(part.repeats)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_has_sizes_that_fit_it(name):
    sizes, shape = SIZES[name], SHAPES[name]

    for one in (*parse_mix(sizes.mix), *parse_mix(sizes.long)):
        assert one.prompt_tokens + one.output_tokens < shape.max_tokens
    assert max(sizes.inject_tokens) + 8 < shape.max_tokens
    assert "long" in {one.name for one in parse_mix(sizes.mix)}


def test_rates_leave_the_server_most_of_its_time():
    rates = rates_for(500.0, SIZE)  # half a second a prompt of 3,000 tokens

    long_per_s = rates.requests_per_s * 0.4
    assert long_per_s * 0.5 == pytest.approx(0.35, abs=0.01)
    assert rates.injections_per_s * (1920 / 3000) * 0.5 == pytest.approx(0.35, abs=0.01)
    assert rates_for(10.0, SIZE).requests_per_s == 8
    assert rates_for(60_000.0, SIZE).requests_per_s == 0.1
    assert rates_for(None, SIZE).long_ttft_ms is None


def test_the_shape_is_llamas():
    assert LLAMA_8B.parameters == 8_030_261_248
    config = model_config(LLAMA_8B)
    assert (config["hidden_size"], config["num_hidden_layers"]) == (4096, 32)
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (32, 8)
    assert config["vocab_size"] == 128_256


def test_the_tokenizer_fills_the_vocabulary_with_printable_tokens(tmp_path):
    folder = write_model(tmp_path / "model", SMALL)

    document = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = document["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(SMALL.vocabulary))
    texts = [token for token in vocabulary if token != "<|end|>"]
    assert all(token.replace("\u0120", " ").isascii() for token in texts)
    assert all(token.replace("\u0120", " ").isprintable() for token in texts)
    assert document["added_tokens"][0]["id"] == SMALL.vocabulary - 1
    assert all(f"{left}{right}" in vocabulary for left, right in document["model"]["merges"])
    assert json.loads((folder / "generation_config.json").read_text()).get("eos_token_id") is None


def test_the_best_server_that_is_there_is_tried_first():
    assert choose("auto", HAS_ALL) == ["vllm", "transformers"]
    assert choose("transformers", HAS_ALL) == ["transformers"]
    assert choose("auto", {**HAS_ALL, "vllm": False}) == ["transformers"]
    assert choose("vllm", {**HAS_ALL, "vllm": False}) == []
    assert choose("auto", {**HAS_ALL, "vllm": False, "openai": False}) == []


def test_the_cache_is_what_weights_and_work_leave():
    # 0.9 x 140 GiB / 3 = 42 GiB each, less 15 GiB of weights and 6 GiB
    assert cache_gib(LLAMA_8B, gpu(), 3) == 21
    assert cache_gib(LLAMA_8B, gpu(memory_gib=80), 3) is None
    assert cache_gib(LLAMA_8B, gpu(memory_gib=80), 1) == 51
    assert cache_gib(LLAMA_8B, replace(gpu(), memory_total_mib=None), 1) is None


def vllm(gpus, *, device="cuda", has_nixl=True, cores=(3, 5)):
    return vllm_deployment(
        "python3",
        "/m",
        LLAMA_8B if device == "cuda" else SMALL,
        device=device,
        gpus=gpus,
        has_nixl=has_nixl,
        ports=[8001, 8002, 8003, 8004],
        cores=cores,
    )


def test_one_gpu_is_shared_by_prefill_and_decode():
    made = vllm([gpu()])

    assert [server.name for server in made.servers] == [
        "vllm-8001-mixed",
        "vllm-8002-prefill",
        "vllm-8003-decode",
    ]
    assert {server.variables["CUDA_VISIBLE_DEVICES"] for server in made.servers} == {"0"}
    assert made.arms == ("mixed", "separated")
    assert made.targets["vllm"] == (
        *("--mixed", "http://127.0.0.1:8001/v1"),
        *("--separated", "prefill=http://127.0.0.1:8002/v1,decode=http://127.0.0.1:8003/v1"),
        *("--gpus", "mixed=1,separated=1", "--model", "random"),
    )
    mixed, prefill, decode = made.servers
    for word in ("--load-format", "dummy", "bfloat16"):
        assert word in mixed.command
    assert mixed.command[mixed.command.index("--kv-cache-memory-bytes") + 1] == str(21 * 2**30)
    assert "--kv-transfer-config" not in mixed.command
    roles = [
        json.loads(one.command[one.command.index("--kv-transfer-config") + 1])
        for one in (prefill, decode)
    ]
    assert [role["kv_role"] for role in roles] == ["kv_producer", "kv_consumer"]
    assert {role["kv_buffer_device"] for role in roles} == {"cuda"}
    side = [one.variables["VLLM_NIXL_SIDE_CHANNEL_PORT"] for one in (prefill, decode)]
    assert side == ["9002", "9003"]
    assert "--enforce-eager" not in mixed.command


def test_two_gpus_are_two_replicas_or_one_each_for_prefill_and_decode():
    made = vllm([gpu(0), gpu(1), gpu(2)])

    placed = [(one.name[10:], one.variables["CUDA_VISIBLE_DEVICES"]) for one in made.servers]
    assert placed == [("mixed", "0"), ("mixed", "1"), ("prefill", "0"), ("decode", "1")]
    assert made.targets["vllm"].count("--mixed") == 2
    assert "mixed=2,separated=2" in made.targets["vllm"]


@pytest.mark.parametrize(("gpus", "has_nixl"), [([gpu()], False), ([gpu(memory_gib=48)], True)])
def test_without_transport_or_memory_only_a_mixed_instance_is_served(gpus, has_nixl):
    made = vllm(gpus, has_nixl=has_nixl)

    assert len(made.servers) == 1
    assert made.arms == ("mixed",)
    assert "--separated" not in made.targets["vllm"]


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="do not fit into G"):
        vllm([gpu(memory_gib=24)])


def test_on_the_cpu_each_instance_has_a_core_and_the_client_has_one():
    made = vllm([], device="cpu", cores=[3, 5, 6, 7])

    assert made.arms == ("mixed", "separated")
    bound = [server.variables["VLLM_CPU_OMP_THREADS_BIND"] for server in made.servers]
    assert bound == ["3", "5", "6"]
    for server in made.servers:
        assert "CUDA_VISIBLE_DEVICES" not in server.variables
        assert "--enforce-eager" in server.command
    assert vllm([], device="cpu", cores=[3, 5, 6]).arms == ("mixed",)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_transformers_serves_one_instance_a_policy(device, tmp_path):
    shape = LLAMA_8B if device == "cuda" else SMALL
    made = transformers_deployment("python3", tmp_path, shape, device=device, ports=[8001, 8002])

    policies = [one.command[one.command.index("--policy") + 1] for one in made.servers]
    assert policies == ["fifo", "prefill_first"]
    assert list(made.targets) == policies
    assert {one.target for one in made.wanted} == set(policies)
    budget = int(made.servers[0].command[made.servers[0].command.index("--max-batch-tokens") + 1])
    # with a longer batch than every prompt the policies would do the same
    assert budget < max(SIZES[shape.name].inject_tokens)
    assert ("--threads" in made.servers[0].command) == (device == "cpu")
    assert all(one.variables["HF_HUB_OFFLINE"] == "1" for one in made.servers)


H200 = (
    "0, NVIDIA H200, 580.159.04, 143771, 1024, 1980, 1980, 3201, 412.31, 700.00, 98, 54\n"
    "1, NVIDIA H200, 580.159.04, 143771, 0, 345, 1980, 3201, [N/A], [Not Supported], 0, 31\n"
)


def test_gpus_are_read_from_what_nvidia_smi_prints():
    first, second = parse_gpus(H200 + "2, NVIDIA H2")

    assert (first.index, first.name, first.driver) == (0, "NVIDIA H200", "580.159.04")
    assert (first.memory_total_mib, first.power_w, first.sm_clock_mhz) == (143771, 412.31, 1980)
    assert second.power_w is None
    assert second.power_limit_w is None
    assert parse_gpus("No devices were found\n") == []


def test_samples_carry_the_time_of_their_line():
    lines = "".join(f"2026/11/30 04:03:5{n}.250, {H200.splitlines()[0]}\n" for n in (1, 2))

    samples = parse_samples(lines + "2026/11/30 04:03:53.2")

    assert len(samples) == 2
    assert samples[1][0] - samples[0][0] == pytest.approx(1.0)
    assert query_command(every_s=1)[1].startswith("--query-gpu=timestamp,index,name")
    assert "timestamp" not in query_command()[1]


def test_what_the_gpus_did_is_told_for_each_of_them():
    samples = parse_gpus(H200.replace("412.31", "400") + H200.replace("412.31", "600"))

    first, second = under_load(samples)

    assert (first["power_w_mean"], first["power_w_max"], first["samples"]) == (500, 600, 2)
    assert second["power_w_mean"] is None
    assert under_load([]) == []

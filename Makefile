# Every target works alone on a machine with Python 3.11+ and make; setup is redone only when
# pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: setup demo test fuzz check engines bench bench-sdk soak gpu clean

$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	touch $@

# What the main job needs: no client libraries, no test tools.
$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	$(PIP) install --editable ".[load,lab]"
	touch $@

$(VENV)/.dev: $(VENV)/.pip pyproject.toml
	$(PIP) install --editable ".[openai,anthropic,httpx,instrument,load,lab]" --group test --group lint
	touch $@ $(VENV)/.demo

setup: $(VENV)/.dev

demo: $(VENV)/.demo
	$(BIN)/phasemeter demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 -m "not lab and not engine"

# Random splits and mutations of recorded responses; FUZZ="--cases 1000000 --jobs 2" for all of them.
FUZZ ?= --cases 50000
fuzz: $(VENV)/.dev
	$(BIN)/python -m benchmarks.fuzz $(FUZZ)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Real vLLM, Prometheus and Phoenix come once, below build/ (5 GB); docs/engines.md.
engines: $(VENV)/.dev
	$(BIN)/python -m tests.engines.set_up
	$(BIN)/python -m pytest -q -rs -m lab
	$(BIN)/python -m pytest -q -rs --durations=5 -m engine

# A first look by default; all of it: make bench BENCH="--rounds 3 --busy-core --ladder".
# The peers come from the package index, once, into environments of their own (11 GB).
BENCH ?= --quick
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.side_by_side $(BENCH)

# The SDK beside other tracing SDKs, each in an environment of its own (1 GB); writes docs/comparison.md.
# A first look: make bench-sdk BENCH_SDK=--quick
BENCH_SDK ?=
bench-sdk: $(VENV)/.dev
	$(BIN)/python -m benchmarks.sdk_comparison
	$(BIN)/python -m benchmarks.sdk_overhead $(BENCH_SDK)

# A million streams one after the other and ten thousand at a time: nothing may stay behind.
SOAK ?=
soak: $(VENV)/.dev
	$(BIN)/python -m benchmarks.sdk_soak $(SOAK)

# On a machine with an NVIDIA GPU (docs/gpu.md); a trial without one:
# make gpu GPU="--device cpu --shape small --python ENVIRONMENT/bin/python --output FOLDER"
GPU ?= --output build/gpu-run --archive build/gpu-run.tar.gz
gpu: $(VENV)/.dev
	$(BIN)/python -m benchmarks.gpu.run $(GPU)

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache

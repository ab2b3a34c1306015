# Nothing is installed outside ./.venv, and nothing but what the lock file names.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Without compiled files every process of the tests would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-fleet test test-all test-agents lint format bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(INSTALLED) ## install interlock and its tools into ./.venv

$(INSTALLED): requirements-dev.lock pyproject.toml
	@command -v git >/dev/null || { echo "git is missing: install git 2.38 or later." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "interlock needs Python 3.11 or later. Name one: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@# --no-deps: the lock names everything
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(INSTALLED) ## what it does, shown in ./demo: no key, no model, no network
	$(BIN)/python -m interlock.demo $(ARGS)

demo-fleet: $(INSTALLED) ## six runs on three workers, one of them killed, in ./demo-fleet
	$(BIN)/python -m interlock.demo.fleet $(ARGS)

test: $(INSTALLED) ## run the quick tests (ARGS="-k name" for some)
	$(BIN)/python -m pytest -n auto -m "not long and not agents" $(ARGS)

test-all: $(INSTALLED) ## run all tests but those of real agents
	INTERLOCK_SEQUENCES=200 INTERLOCK_EXAMPLES=100 $(BIN)/python -m pytest -n auto -m "not agents" $(ARGS)

test-agents: $(INSTALLED) ## install the pinned real agents from npm and run their tests
	$(BIN)/python -m tools.clients install
	$(BIN)/python -m pytest -n auto -m agents $(ARGS)

lint: $(INSTALLED) ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED) ## put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## measure what the design decisions rest on
	@set -e; for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python -m benchmarks.$$(basename $$script .py) $(ARGS); done
	@# 1,000 stories of a tree by each maker; the seed stands in each line
	INTERLOCK_SEQUENCES=1000 $(BIN)/python -m pytest -n auto -v tests/workspace/layers/test_sequences.py
	@# whom each process believes: 1,000 hostile runs and 100 honest ones
	INTERLOCK_LIES=1000 $(BIN)/python -m pytest -n auto -m long -rP tests/playbooks/test_lies.py

lock: $(INSTALLED) ## resolve the dependencies anew (ARGS=--upgrade for newer ones)
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-emit-find-links $(ARGS) --all-extras --group dev --output-file requirements-dev.lock

clean: ## remove everything that make made
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything a developer does here, one target each. `make` alone lists them.
# Nothing is installed outside ./.venv, and nothing but what the lock files name.

PYTHON ?= python3
ARGS ?=
CLIENTS ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-emit-find-links

# Without compiled files every process of the tests would compile the house anew, and every run its 300 test files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-fleet house-test test test-all test-agents mutants lint format bench docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(INSTALLED) ## install interlock and its tools into ./.venv

$(INSTALLED): requirements-dev.lock pyproject.toml
	@command -v git >/dev/null || { echo "git is missing: interlock keeps snapshots with it. Install git 2.38 or later." >&2; exit 1; }
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or later, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$("$(PYTHON)" --version) is too old: interlock needs Python 3.11 or later. Name one: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@# --no-deps: the lock names everything; pip's own search would want the newest of what an extra names, and refuse it
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(INSTALLED) ## run a playbook with scripted agents, in ./demo
	$(BIN)/python -m interlock.demo $(ARGS)

demo-fleet: $(INSTALLED) ## six runs on three workers, one of them killed, in ./demo-fleet
	$(BIN)/python -m interlock.demo.fleet $(ARGS)

test: $(INSTALLED) ## run the quick tests (ARGS="-k name" for some)
	$(BIN)/python -m pytest -n auto -m "not long" $(ARGS)

test-all: $(INSTALLED) ## run all tests: crash sweeps, whole runs and rehearsals, another user's
	$(BIN)/python -m pytest -n auto $(ARGS)

house-test: ## test and lint the new house, in house/
	$(MAKE) -C house PYTHON=$(PYTHON) test lint

test-agents: $(INSTALLED) ## install the pinned real agents from npm, run their tests (CLIENTS="codex" for some)
	$(BIN)/python -m tools.clients install $(CLIENTS)
	INTERLOCK_TEST_CLIENTS="$(or $(CLIENTS),all)" $(BIN)/python -m pytest -n auto -m agents $(ARGS)

mutants: $(INSTALLED) ## change the pure modules here and there: do their tests notice? (ARGS="--all" for every change)
	$(BIN)/python -m tools.mutants $(ARGS)

lint: $(INSTALLED) ## check style, types, layers, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict tools benchmarks
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/conformance.py --check

format: $(INSTALLED) ## put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## measure what the design decisions rest on
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" $(ARGS); done

docs: $(INSTALLED) ## write the generated pages anew
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/diagrams.py
	$(BIN)/python tools/conformance.py

lock: $(INSTALLED) ## resolve the dependencies anew (ARGS=--upgrade for newer ones)
	$(COMPILE) $(ARGS) --output-file requirements.lock
	$(COMPILE) $(ARGS) --all-extras --group dev --output-file requirements-dev.lock

clean: ## remove everything that make made
	rm -rf $(VENV) demo demo-fleet dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

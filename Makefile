# Every target makes .venv by itself from a plain python3. `make PYTHON=/path/to/python` picks another one.
PYTHON ?= python3
export PYTHON
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow lint fmt bench soak lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv, or bring it up to date

$(READY): requirements-dev.txt pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh
	@touch $@

demo: $(READY) ## 20 callers on 2 worker processes for 30 s against the reference agent; writes reports/demo/
	@$(BIN)/python scripts/demo.py

test: $(READY) ## Run every test that is not slow
	$(BIN)/python -m pytest -q -m "not slow"

test-slow: $(READY) ## Run the tests that take minutes
	$(BIN)/python -m pytest -q -m slow

lint: $(READY) ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(READY) ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## How many calls a core holds, how exactly, against others; writes reports/bench/ (10 minutes)
	$(BIN)/python -m benchmarks.density --publish docs/benchmarks.md
	$(BIN)/python -m benchmarks.accuracy

soak: $(READY) ## Hold 100 calls for an hour and see whether memory and lag stay flat (CALLS=, MINUTES=)
	$(BIN)/python -m benchmarks.soak --calls $(or $(CALLS),100) --minutes $(or $(MINUTES),60) --out reports/soak.json

lock: ## Pin the newest versions of all requirements, with hashes
	bash scripts/lock.sh

clean: ## Remove .venv, caches and what runs left behind, but for reports/
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target sets up what it needs in .venv by itself. A stamp file per extra says that it is installed;
# it is renewed when pyproject.toml or constraints.txt changes. Python compiles what it imports; pip would compile all.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# One test process per core, each with one thread: faster than one process with many threads. Counting what they reach
# takes a third of the time; `make test PYTEST_ARGS="--numprocesses auto"` leaves that out.
PYTEST_ARGS ?= --numprocesses auto --cov

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs results robustness mutation clean
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.lab ## Compare Adam, Adam-HD and Adam-CAM-HD on scikit-learn's digits; table and report
	$(BIN)/camhd compare $(DEMO_ARGS)

test: lint $(VENV)/.test ## Lint, check types, run every test and say how much of the code they reach (95 % at least)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.lint ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

results: $(VENV)/.lab ## Make docs/results.md, its figures and the tables of docs/no-tuning.md from the records in results/
	$(BIN)/camhd results page

robustness: $(VENV)/.lab ## A small version of the study of the default: minutes, nothing to download
	$(BIN)/camhd reproduce robustness

mutation: $(VENV)/.test ## Test the tests of the maths: make one small mistake at a time, and see whether they notice
	cd tools && OMP_NUM_THREADS=1 ../$(BIN)/python -m mutation trace
	cd tools && OMP_NUM_THREADS=1 ../$(BIN)/python -m mutation run
	cd tools && ../$(BIN)/python -m mutation report

clean: ## Remove the virtual environment and everything built
	rm -rf $(VENV) site dist build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[$*]'
	@touch $@

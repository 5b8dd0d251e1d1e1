# `make run` and `make test` do everything on a fresh Debian machine with Python 3.11 or newer.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help run test test-page conformance bench lessons samples clean chromium gpu

help: ## Show these targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

run: $(VENV)/.installed gpu ## Install what the page needs and open it on localhost
	@exec $(BIN)/streamlit run app.py

test: $(VENV)/.installed-test chromium ## Install the test tools, check style and types, run all tests
	@$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-page: $(VENV)/.installed-test chromium ## Run every browser test in both languages (make test: most in one)
	@$(BIN)/python -m pytest -n 2 --dist loadfile --every-language tests/e2e

bench: $(VENV)/.installed-bench ## Compare with ONNX Runtime, torch.compile and NumPy in one run
	@$(BIN)/python -m benchmarks

bench-page: $(VENV)/.installed-test chromium ## Frames, first pictures and many sessions at once, of the page
	@$(BIN)/python -m benchmarks.page
	$(BIN)/python -m benchmarks.sessions

conformance: $(VENV)/.installed-test ## Run the test suite of ONNX backends and print its table
	@$(BIN)/python -m conformance

lessons: $(VENV)/.installed ## Run what the lessons run, hold their texts to it and record it
	@$(BIN)/python -m lessons

samples: $(VENV)/.installed-test ## Write the sample models again (digits only with scikit-learn)
	@$(BIN)/python -m sample_models.generate

clean: ## Remove the virtual environment and every cache
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# ---- what the targets stand on; each does nothing when it is already there

# pip is what `python -m venv` writes last, so a half-made environment is made again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
		echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2
		echo "Name another one:  make PYTHON=python3.12 ..." >&2
		exit 1
	}
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || {
		echo "Python's venv module is missing. Install it:  sudo apt-get install python3-venv" >&2
		exit 1
	}
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.txt | $(BIN)/pip
	@echo "Installing requirements.txt into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

# The GPU's packages compile to PTX without a GPU: the tests read that text.
$(VENV)/.installed-test: requirements-test.txt requirements-gpu.txt $(VENV)/.installed
	@echo "Installing requirements-test.txt and requirements-gpu.txt into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-r requirements.txt -r requirements-test.txt -r requirements-gpu.txt
	touch $@

$(VENV)/.installed-bench: requirements-bench.txt $(VENV)/.installed-test
	@echo "Installing requirements-bench.txt into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-r requirements.txt -r requirements-bench.txt
	touch $@

$(VENV)/.installed-gpu: requirements-gpu.txt $(VENV)/.installed
	@echo "Installing requirements-gpu.txt into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-r requirements.txt -r requirements-gpu.txt
	touch $@

gpu: $(VENV)/.installed
	@if nvidia-smi -L >/dev/null 2>&1; then $(MAKE) $(VENV)/.installed-gpu; fi

# The browser tests drive Debian's own Chromium. Without it the run fails; nothing is skipped.
chromium:
	@command -v chromium >/dev/null && exit
	root=
	if [ "$$(id -u)" != 0 ]; then root=$$(command -v sudo || true); fi
	apt="$$root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300"
	echo "Installing Debian's Chromium for the browser tests ..."
	if $$apt update && $$apt install -y --no-install-recommends chromium >/dev/null; then
		command -v chromium >/dev/null && exit
	fi
	echo "The browser tests need Chromium, and it can't be installed from here." >&2
	echo "Install it, then run 'make test' again:  sudo apt-get install chromium" >&2
	exit 1

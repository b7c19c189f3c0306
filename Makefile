# Two commands do everything on a fresh machine (Debian, Python 3.11+ with venv, make):
#   make run   sets everything up and runs the main job
#   make test  sets everything up and passes the tests
# make conformance holds narrows against the models that transformers builds (CONFORM="llama qwen3 --draws 5" to choose)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
REFERENCE ?= .venv-conformance
CONFORM ?=

.PHONY: run test lint types unit translations schema readme benchmark conformance clean

run: $(VENV)/.run
	mkdir -p $(OUT)
	$(BIN)/narrows fit llama-2-7b --gpu a10g --gpu l40s --max-len 4096 --cloud aws --plot $(OUT)/fit.png
	$(BIN)/narrows explain plan --plot $(OUT)/roofline.png
	$(BIN)/narrows roofline llama-3.1-8b --gpu l40s --gpu h100-sxm --plot $(OUT)/bounds.png
	@echo
	@echo "pictures: $(OUT)/fit.png, $(OUT)/roofline.png, $(OUT)/bounds.png"

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/translations.py check

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/pytest -n auto

translations: $(VENV)/.dev
	$(BIN)/python scripts/translations.py update
	$(BIN)/python scripts/translations.py compile

schema: $(VENV)/.dev
	$(BIN)/python scripts/schema.py

readme: $(VENV)/.dev
	$(BIN)/narrows fit llama-2-7b --gpu a10g --gpu l40s --max-len 4096 --cloud aws --plot docs/fit.png > /dev/null
	$(BIN)/narrows explain --plot docs/roofline.png > /dev/null
	$(BIN)/narrows roofline llama-3.1-8b --gpu l40s --gpu h100-sxm --plot docs/bounds.png > /dev/null
	$(BIN)/narrows fit llama-2-7b --gpu a10g --gpu l40s --max-len 4096 --cloud aws --lang ko --plot docs/fit.ko.png > /dev/null
	$(BIN)/narrows explain --lang ko --plot docs/roofline.ko.png > /dev/null
	$(BIN)/narrows roofline llama-3.1-8b --gpu l40s --gpu h100-sxm --lang ko --plot docs/bounds.ko.png > /dev/null
	$(BIN)/python scripts/readme.py

benchmark: $(VENV)/.dev
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/headers.py

conformance: $(REFERENCE)/.ready
	PYTHONPATH=. $(REFERENCE)/bin/python -m conformance $(CONFORM)

$(REFERENCE)/.ready: pyproject.toml
	$(PYTHON) -m venv $(REFERENCE)
	$(REFERENCE)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[conformance]'
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) $(REFERENCE) $(OUT) .mypy_cache .pytest_cache .ruff_cache .hypothesis

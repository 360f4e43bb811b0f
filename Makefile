PYTHON ?= python3
VENV ?= .venv
OLDEST ?= .venv-oldest
BIN = $(VENV)/bin

.PHONY: demo test oldest lint docs clean

demo: $(VENV)/.demo ## install and run the main job
	$(BIN)/unseen demo

test: $(VENV)/.test ## install and run the tests
	$(BIN)/python -m pytest -n auto

oldest: $(OLDEST)/.test ## part of the tests, with the oldest versions that pyproject.toml allows
	NUMBA_CACHE_DIR=$(OLDEST)/numba $(OLDEST)/bin/python -m pytest -n auto tests/contract/test_contract.py \
		tests/solvers tests/images tests/cli/test_photos.py tests/cli/test_data.py

lint: $(VENV)/.lint ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/bandit -q -r src -ll

docs: $(VENV)/.docs ## the pages of docs/ and the reference, in site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e ".[all]"
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e ".[test]"
	touch $@

$(OLDEST)/.test: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip uv
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct -e ".[test]"
	touch $@

$(VENV)/.lint: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e ".[all,lint]"
	touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) build dist site unseen-demo* .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Two commands do all the set-up: `make demo` and `make test`. Both re-run quickly once `.venv` is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_NO_CACHE_DIR := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint types bench lock clean

demo: $(VENV)/.installed
	$(BIN)/predilect demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses=3 --no-loadscope-reorder

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/python tests/check_types.py

bench: $(VENV)/.installed
	$(BIN)/pip install --quiet --require-hashes -r benchmarks/requirements.lock
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# The lock holds versions and hashes only: no index address, no path.
lock:
	uv pip compile pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 \
	    --no-emit-index-url --no-emit-find-links --no-header --output-file requirements.lock
	uv pip compile pyproject.toml --extra bench --constraint requirements.lock --generate-hashes --universal \
	    --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header \
	    --output-file benchmarks/requirements.lock
	echo 'setuptools>=77' | uv pip compile pyproject.toml - --constraint requirements.lock --generate-hashes \
	    --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header \
	    --output-file infra/requirements.lock

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Predilect needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) state mlruns/mlflow.db mlruns/artifacts

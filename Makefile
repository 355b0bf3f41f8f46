# Every target sets up what it needs: `.venv` with the versions of requirements-dev.txt, the
# extension built in release, the Node packages of tests/interop.
# `make PYTHON=python3.13` chooses the interpreter of a new `.venv`.
PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin

# What is set up, each with a file that says when.
ENV := .venv/.created
BUILT := .venv/.built
TOOLS := .venv/.tools
CHECKED := target/checked/.built
NODE := tests/interop/node_modules/.installed

export VIRTUAL_ENV := $(VENV)
export PYO3_PYTHON := $(BIN)/python
# Every installation is of the locked versions.
export PIP_CONSTRAINT := $(CURDIR)/requirements-dev.txt
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# As maturin has it: nothing links libpython, which many machines lack. The Rust tests need none,
# since the rooms that they test do not touch Python.
export PYO3_BUILD_EXTENSION_MODULE := 1

# $(call need,COMMAND,WHAT IS MISSING): one line and a failure where COMMAND fails.
need = @$(1) >/dev/null 2>&1 || { echo 'agui-codec: $(2)' >&2; exit 1; }

# $(call check_for,VERSION): that clippy passes for another Python, which need not be here.
check_for = PYO3_CONFIG_FILE=$(CURDIR)/.ci/pyo3-$(1).txt \
	  cargo clippy --locked --quiet --lib --target-dir target/python-$(1) -- -D warnings &&

.PHONY: help demo test lint bench sanitize free-threads wheel sdist lock clean
# Two installations at once would disturb each other.
.NOTPARALLEL:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: $(BUILT) ## Show what the codec does, in one command
	$(BIN)/agui-codec demo

test: $(NODE) $(TOOLS) $(BUILT) $(CHECKED) ## Run the tests: Rust, Python, and against Node
	cargo test --locked --lib
	$(BIN)/python -m pytest -n auto -m 'not serial'
	AGUI_CODEC_CHECKED=$(CURDIR)/target/checked/site $(BIN)/python -m pytest -m serial

lint: $(TOOLS) $(BUILT) ## Check formatting, lints and types
	$(call need,cargo fmt --version,rustfmt is missing: rustup component add rustfmt)
	$(call need,cargo clippy --version,clippy is missing: rustup component add clippy)
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	$(foreach version,3.15 3.15t,$(call check_for,$(version))) true
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict python/ benches/
	$(BIN)/python -m mypy.stubtest --ignore-disjoint-bases \
	  --allowlist tests/stubtest-allowlist.txt agui_codec._native

# Options: STRESS_SECONDS (1800 by default, and a quarter of it with threads), SEED, STRESS_ONLY=1.
sanitize: $(NODE) ## Run the hostile tests and the stress under AddressSanitizer
	.ci/sanitize

# Options: STRESS_SECONDS (300 by default), SEED, STRESS_ONLY=1, FREE_THREADED_PYTHON.
free-threads: $(NODE) ## Run the tests and the stress on a Python without its lock
	.ci/free-threads

bench: $(TOOLS) $(BUILT) $(NODE) ## Measure against other codecs; write docs/benchmarks.md and the README table
	$(BIN)/python -m benches.report

wheel: $(ENV) ## Build a wheel for this interpreter into dist/
	$(BIN)/maturin build --release --locked --interpreter $(BIN)/python --out dist

sdist: $(ENV) ## Build the source distribution into dist/
	$(BIN)/maturin sdist --out dist

lock: ## Choose the versions in requirements-dev.txt anew
	$(call need,uv --version,uv is missing: pip install uv)
	UV_CUSTOM_COMPILE_COMMAND='make lock' uv pip compile --quiet --upgrade --universal \
	  --python-version 3.10 --no-annotate --output-file requirements-dev.txt requirements-dev.in

clean: ## Remove everything that was built or installed here
	rm -rf .venv dist target tests/interop/node_modules
	rm -rf .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -f python/agui_codec/_native*.so
	find python tests benches -name __pycache__ -prune -exec rm -rf {} +

$(ENV):
	$(call need,$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 10)',Python 3.10 or newer is missing: make PYTHON=/path/to/python3)
	$(call need,cargo --version,Rust is missing: install it with rustup)
	$(call need,$(PYTHON) -m venv $(VENV),`$(PYTHON) -m venv` fails: on Debian install python3-venv)
	$(PIP_INSTALL) maturin
	@touch $@

$(BUILT): $(ENV) Cargo.toml Cargo.lock build.rs pyproject.toml $(shell find src -name '*.rs')
	PIP_QUIET=1 $(BIN)/maturin develop --release --locked --extras cli
	@touch $@

$(CHECKED): $(ENV) Cargo.toml Cargo.lock build.rs $(shell find src -name '*.rs') $(shell find python -name '*.py')
	.ci/checked-build target/checked $(BIN)/python
	@touch $@

$(TOOLS): $(ENV) requirements-dev.txt
	$(PIP_INSTALL) -r requirements-dev.txt
	@touch $@

$(NODE): tests/interop/package-lock.json
	$(call need,node -e 'assert(parseInt(process.versions.node) >= 20)',Node 20 or newer is missing)
	npm ci --prefix tests/interop --no-audit --no-fund
	@touch $@

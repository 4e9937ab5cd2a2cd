# Every target does its own set-up: `make test` may be the first command in a fresh clone.
# Needs make and a Python >= 3.11 with venv and pip; another one than python3: make test PYTHON=python3.13

PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
# One process per core; `make test PYTEST_ARGS=` runs in one.
PYTEST_ARGS ?= -n auto

.DEFAULT_GOAL := help
.NOTPARALLEL:            # two pips in one environment would fight
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-oldest test-newest coverage mutation check format bench honesty docs
.PHONY: clean distclean force

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- set-up -------------------------------------------------------------------
# One environment, one stamp per set of extras; a stamp older than pyproject.toml means: install again.
# pip only ever adds, so the sets share the environment without undoing each other.
# Tools are started with `python -m`, because scripts in .venv/bin break when a clone is moved.

MADE := $(VENV)/.made
DEMO := $(VENV)/.installed-demo
DEV  := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs

# A missing environment, one whose interpreter is gone, or one that came along with a copied clone
# (it would import the *other* clone's sources) is set up anew.
ifneq ($(shell $(RUN) -c "" 2>/dev/null && cat $(MADE) 2>/dev/null),$(CURDIR))
$(MADE): force
endif

$(MADE):
	@$(RUN) -c "" 2>/dev/null || rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@echo '$(CURDIR)' > $@

$(DEMO): pyproject.toml $(MADE)
	$(RUN) -m pip install --quiet --editable '.[cli]'
	@touch $@

$(DEV): pyproject.toml $(MADE)
	$(RUN) -m pip install --quiet --editable '.[dev]'
	@touch $(DEMO) $@

$(DOCS): pyproject.toml $(MADE)
	$(RUN) -m pip install --quiet --editable '.[docs]'
	@touch $@

# The peers of `make bench` are pinned, and live in an environment of their own, which git and ruff do not look into.
BENCH_VENV := .venv-bench
BENCH_RUN  := $(BENCH_VENV)/bin/python
BENCH_MADE := $(BENCH_VENV)/.made
BENCH      := $(BENCH_VENV)/.installed-bench

ifneq ($(shell $(BENCH_RUN) -c "" 2>/dev/null && cat $(BENCH_MADE) 2>/dev/null),$(CURDIR))
$(BENCH_MADE): force
endif

$(BENCH_MADE):
	@$(BENCH_RUN) -c "" 2>/dev/null || rm -rf $(BENCH_VENV)
	$(PYTHON) -m venv $(BENCH_VENV)
	@echo '*' > $(BENCH_VENV)/.gitignore
	@echo '$(CURDIR)' > $@

$(BENCH): pyproject.toml benchmarks/requirements.txt $(BENCH_MADE)
	$(BENCH_RUN) -m pip install --quiet --requirement benchmarks/requirements.txt --editable '.[data]'
	@touch $@

# The oldest releases that pyproject.toml allows, the newest that there are, and the data of `make honesty`: one
# environment each, too.
OLDEST := .venv-oldest/.installed-test
NEWEST := .venv-newest/.installed-test
HONESTY := .venv-honesty/.installed

# The newest Python that starts here, on the path or kept by pyenv.
NEWER := 3.15 3.14 3.13 3.12
PYTHON_NEWEST ?= $(shell for it in $(NEWER); do for python in python$$it "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$it.*/bin/python; \
	do if "$$python" -c "" 2>/dev/null; then echo "$$python"; exit; fi; done; done; echo $(PYTHON))
.venv-oldest/.made: WITH = $(PYTHON)
.venv-newest/.made: WITH = $(PYTHON_NEWEST)
.venv-honesty/.made: WITH = $(PYTHON)

belongs_here = $(filter $(CURDIR),$(shell .venv-$(1)/bin/python -c "" 2>/dev/null && cat .venv-$(1)/.made 2>/dev/null))
$(foreach it,oldest newest honesty,$(if $(call belongs_here,$(it)),,$(eval .venv-$(it)/.made: force)))

.venv-oldest/.made .venv-newest/.made .venv-honesty/.made:
	rm -rf $(@D)
	$(WITH) -m venv $(@D)
	@echo '*' > $(@D)/.gitignore
	@echo '$(CURDIR)' > $@

$(OLDEST): pyproject.toml tests/oldest.py .venv-oldest/.made
	$(@D)/bin/python tests/oldest.py > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt --editable '.[test]'
	@touch $@

$(NEWEST): pyproject.toml .venv-newest/.made
	$(@D)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
	@touch $@

$(HONESTY): pyproject.toml benchmarks/requirements-honesty.txt .venv-honesty/.made
	$(@D)/bin/python -m pip install --quiet --requirement benchmarks/requirements-honesty.txt --editable '.[data,plots]'
	@touch $@

# What is run there: scikit-learn's checks of every public estimator, the contracts, the files of models, the laws.
# COMPATIBILITY=tests runs everything.
COMPATIBILITY ?= tests/contracts tests/persistence tests/laws tests/model tests/estimators \
	-k 'scikit_learn or contracts or persistence or laws'

# --- verbs --------------------------------------------------------------------

demo: $(DEMO)  ## fit, compare and certify models of two real data sets; prints tables, writes demo-report.html
	$(RUN) -m credibly demo --out demo-report.html --force

test: check  ## everything CI runs: check, then the tests
	$(RUN) -m pytest tests $(PYTEST_ARGS)

test-slow: $(DEV)  ## the tests marked slow
	$(RUN) -m pytest tests -m slow || test $$? -eq 5  # 5: there are none

# A release is asked to work with what came after it, not to know of it: its deprecations are no failures here.
test-oldest: $(OLDEST)  ## the contracts with the oldest supported versions of everything (COMPATIBILITY=tests: all tests)
	$(<D)/bin/python -m pytest -p no:cacheprovider -W ignore::DeprecationWarning $(PYTEST_ARGS) $(COMPATIBILITY)

test-newest: $(NEWEST)  ## … with the newest Python here and the newest versions
	@$(<D)/bin/python -c 'import sys; sys.version_info < (3, 12) and print("make: no Python newer than 3.11 was found; PYTHON_NEWEST=… names one")'
	$(<D)/bin/python -m pytest -p no:cacheprovider $(PYTEST_ARGS) $(COMPATIBILITY)

check: $(DEV)  ## formatting, lint, strict types, the examples in docstrings
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(RUN) -m pytest --quiet src $(PYTEST_ARGS)

format: $(DEV)  ## let ruff fix what it can
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: $(BENCH)  ## credibly beside other packages, 15 minutes; writes docs/benchmarks.md (BENCH_ARGS="--only gp" prints some cases)
	$(BENCH_RUN) -m benchmarks $(BENCH_ARGS)

honesty: $(HONESTY)  ## held-out log loss of the defaults on sixty data sets, distance to exact; hours, goes on where it ended (HONESTY_ARGS="--quick")
	$(<D)/bin/python -m benchmarks.honesty $(HONESTY_ARGS)

coverage: $(DEV)  ## lines and branches that the tests reach in the rooms that compute numbers; fails below 95 %
	@rm -rf .coverage .coverage.*
	$(RUN) -m pytest tests src $(PYTEST_ARGS) --cov --cov-report=
	$(RUN) -m coverage report --skip-covered --show-missing
	$(RUN) -m coverage json -q -o - | $(RUN) tests/coverage_by_room.py

# mutmut is pinned because the names of mutants in tests/mutation/SURVIVORS.md are its own.
MUTATION := $(VENV)/.installed-mutation

$(MUTATION): tests/mutation/requirements.txt $(DEV)
	$(RUN) -m pip install --quiet --requirement $<
	@touch $@

mutation: $(MUTATION)  ## does a test fail when a formula is made wrong? An hour; MUTATION_ARGS="ep --sample 50" takes a part
	OMP_NUM_THREADS=1 $(RUN) tests/mutation/run.py $(MUTATION_ARGS)

docs: $(DOCS)  ## the guide and the API reference, into docs/_build/html
	$(RUN) -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo 'open docs/_build/html/index.html'

clean:  ## remove what the other targets made, but for the environment
	rm -rf build dist docs/_build docs/api/generated demo-report.html mutants.jsonl .coverage .coverage.*
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## … and the environment too
	rm -rf $(VENV) $(BENCH_VENV) .venv-oldest .venv-newest .venv-honesty

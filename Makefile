# The two commands of the README are `make demo` and `make test`; each sets up its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.bench-ready
KERNELS_READY := $(VENV)/.kernels-ready
DOCS_READY := $(VENV)/.docs-ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo test test-slow check format bench bench-soak mutants docs dist clean help

help:
	@echo "make demo       a fleet, its plan, trained beside others; the paper's fleets; a report in demo-out/"
	@echo "make test       format, lint, types, import rules and the fast tests"
	@echo "make test-slow  the long tests"
	@echo "make bench      speed beside peers, as ratios measured in one run"
	@echo "make bench-soak a million tasks through a live run of 1000 clients: does its memory stay where it is?"
	@echo "make mutants    a sample of small errors, to see which of them no test notices (ROOM=planner)"
	@echo "make docs       the documentation as a site, in docs-out/; broken links are errors"
	@echo "make dist       the wheel and the sdist, in dist/"

$(READY): pyproject.toml papers/queuing_dynamics/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "sojourn needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; call make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,browser,report,dashboard,train,tensorboard,mlflow,wandb,sweep,ray,live,flower]' --editable papers/queuing_dynamics
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps dp-accounting dm-tree wrapt
	@touch $@

$(BENCH_READY): $(READY) benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps line-solver==3.0.8  # its mva alone is called, which needs no websockets
	@touch $@

$(KERNELS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[kernels]'
	@touch $@

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py --out demo-out

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(KERNELS_READY) $(DOCS_READY)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m slow  # three on two cores, because many wait for processes

bench: $(BENCH_READY)
	$(BIN)/python benchmarks/run.py

bench-soak: $(READY)
	$(BIN)/python benchmarks/soak.py

mutants: $(READY)
	$(BIN)/python tests/mutants.py $(or $(ROOM),planner)

docs: $(DOCS_READY)
	$(BIN)/python -m mkdocs build

dist: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling
	$(BIN)/python -m hatchling build

clean:
	rm -rf $(VENV) demo-out docs-out .pytest_cache .mypy_cache .ruff_cache .hypothesis

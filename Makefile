# Every target sets up what it needs: a virtual environment in .venv, from the locked versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# PySpark is half a GB: what needs it has a virtual environment of its own.
SPARK_VENV := .venv-spark
SPARK_BIN := $(SPARK_VENV)/bin

.PHONY: demo test test-real test-spark check check-spark format bench bench-spark soak readme completions lock clean compiled

demo: compiled
	@$(BIN)/rmqctl demo

# Unit tests side by side, then the tests against real RocketMQ, which wait most of the time: two processes, whose brokers are
# their own. A dozen JVMs share the machine with whatever else runs there, and brokers refuse what waited for 200 ms: what
# fails is run once more, alone, and shown by name. What fails twice fails.
test: compiled
	$(PYTEST) -q -n auto --ignore=tests/real --ignore=tests/spark
	$(PYTEST) -q -n 2 --dist loadfile tests/real || $(PYTEST) -v --last-failed --last-failed-no-failures none tests/real

test-real: compiled
	$(PYTEST) -v tests/real

# The pipeline, on Spark and against real RocketMQ; what fails is run once more, as above.
test-spark: $(SPARK_VENV)/.ready
	$(SPARK_BIN)/python -m pytest -q tests/spark || \
		$(SPARK_BIN)/python -m pytest -v --last-failed --last-failed-no-failures none tests/spark

check-spark: $(SPARK_VENV)/.ready
	$(SPARK_BIN)/mypy

check: $(VENV)/.ready
	$(BIN)/ruff format --check rmqctl tests
	$(BIN)/ruff check rmqctl tests
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.ready
	$(BIN)/ruff format rmqctl tests
	$(BIN)/ruff check --fix rmqctl tests

bench: compiled
	$(BIN)/python -m tests.bench

bench-spark: $(SPARK_VENV)/.ready
	@missed=0; for each in bench bench_lag bench_fleet; do $(SPARK_BIN)/python -m tests.spark.$$each || missed=1; done; exit $$missed

soak: compiled
	$(BIN)/python -m tests.soak

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(SPARK_VENV)/.ready: requirements-spark.lock pyproject.toml
	$(PYTHON) -m venv $(SPARK_VENV)
	$(SPARK_BIN)/python -m pip install -q --disable-pip-version-check -r requirements-spark.lock
	$(SPARK_BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(SPARK_BIN)/python -m compileall -q $(SPARK_VENV)/lib rmqctl > $(SPARK_VENV)/compiled.log || true
	@touch $@

# As pip does when it installs: where PYTHONDONTWRITEBYTECODE is set, every start would compile the sources anew.
compiled: $(VENV)/.ready
	@$(BIN)/python -m compileall -q rmqctl

# Runs README's examples against a real cluster and writes their output into it.
readme: compiled
	$(BIN)/python -m tests.real.readme_scenario

# Writes the completion scripts and the table of words behind them.
completions: $(VENV)/.ready
	$(BIN)/python -m rmqctl.cli.completion_table

# Takes the newest versions that pyproject.toml allows. Run by hand; the result is committed.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install -q --disable-pip-version-check uv
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --extra yaml --group dev pyproject.toml --upgrade -o requirements.lock
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --extra yaml --extra spark --group dev pyproject.toml -c requirements.lock \
		--upgrade -o requirements-spark.lock
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) $(SPARK_VENV) .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .real-logs .bench

# Every target sets up what it needs: a virtual environment in .venv, from the locked versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# PySpark is half a GB: what needs it has a virtual environment of its own.
SPARK_VENV := .venv-spark
SPARK_BIN := $(SPARK_VENV)/bin
DOCS_VENV := .venv-docs

.PHONY: demo test test-all test-real test-spark test-spark-smoke check check-spark format bench bench-spark soak docs examples completions man lock clean compiled

demo: compiled
	@$(BIN)/rmqctl demo

# The gate's body, some minutes: what needs no JVM, then a smoke on one real 5.4.0, beside a sandbox and a cluster behind TLS.
# Nothing in it may depend on how fast the machine is; what does is marked by_the_clock. tests/README.md says how to add a test.
# Without rewritten asserts, 13,000 tests are collected in 10 s instead of 30 s; what fails is run again with them.
UNIT := $(PYTEST) -q -n auto --ignore=tests/real --ignore=tests/spark
test: compiled
	$(UNIT) -m "not by_the_clock" --assert=plain || { $(PYTEST) -q --last-failed --last-failed-no-failures none; exit 1; }
	$(PYTEST) -q -n 2 -m smoke -k 5.4.0 tests/real

# Everything against real RocketMQ 5.4.0 and 4.9.7, and the core on 5.5.0: make test-real K=reset picks by name.
REAL := $(PYTEST) -q -n 2 --dist loadfile tests/real
test-real: compiled
	$(REAL) $(if $(K),-k "$(K)")

# The pipeline, on Spark and against real RocketMQ.
SPARK := $(SPARK_BIN)/python -m pytest -q tests/spark
test-spark: $(SPARK_VENV)/.ready
	$(SPARK) $(if $(K),-k "$(K)")

# The gate's part of it: one Spark session on a sandbox.
test-spark-smoke: $(SPARK_VENV)/.ready
	$(SPARK)/smoke

# All tests there are, each once: hours on two cores. A failure stops nothing; a table says at the end what failed.
REPORT := .test-report
test-all: compiled $(SPARK_VENV)/.ready
	@rm -rf $(REPORT) && mkdir $(REPORT)
	-$(UNIT) --junitxml=$(REPORT)/unit.xml
	-$(REAL) --junitxml=$(REPORT)/real.xml
	-$(SPARK) --junitxml=$(REPORT)/spark.xml
	@$(BIN)/python -m tests.report $(REPORT)/unit.xml $(REPORT)/real.xml $(REPORT)/spark.xml

# All of it that imports pyspark; `make check` looks at the rest.
check-spark: $(SPARK_VENV)/.ready
	$(SPARK_BIN)/mypy -p rmqctl.pipeline

PROSE := rmqctl plugins docs README.md CHANGELOG.md ARCHITECTURE.md DECISIONS.md tests/README.md

check: $(VENV)/.ready docs
	$(BIN)/ruff format --check rmqctl tests docs/example_service.py
	$(BIN)/ruff check rmqctl tests docs/example_service.py
	$(BIN)/mypy
	$(BIN)/mypy docs/example_service.py
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.layout rmqctl
	$(BIN)/codespell $(PROSE)
	$(BIN)/python -m tests.voice $(PROSE)

format: $(VENV)/.ready
	$(BIN)/ruff format rmqctl tests
	$(BIN)/ruff check --fix rmqctl tests

bench: compiled
	$(BIN)/python -m tests.bench

bench-spark: $(SPARK_VENV)/.ready
	@missed=0; for each in bench bench_snapshot bench_lag bench_fleet; do $(SPARK_BIN)/python -m tests.spark.$$each || missed=1; done; exit $$missed

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

$(DOCS_VENV)/.ready: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install -q --disable-pip-version-check -r requirements-docs.lock
	@touch $@

# As pip does when it installs: where PYTHONDONTWRITEBYTECODE is set, every start would compile the sources anew.
compiled: $(VENV)/.ready
	@$(BIN)/python -m compileall -q rmqctl

# The manual as a site, in .site; any broken link is an error.
docs: $(DOCS_VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build -q --strict

# Runs the examples of README.md and docs/ on real clusters and writes their output: make examples P=docs/stuck.md for one page.
examples: compiled
	$(BIN)/python -m tests.real.docs_stage $(P)

# Writes the completion scripts and the table of words behind them.
completions: $(VENV)/.ready
	$(BIN)/python -m rmqctl.cli.completion.table

# The manual pages of all commands; a wheel brings them along (hatch_build.py).
man: compiled
	$(BIN)/python -m rmqctl.cli.man_pages build/man

# Takes the newest versions that pyproject.toml allows. Run by hand; the result is committed.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install -q --disable-pip-version-check uv
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --extra yaml --group dev pyproject.toml --upgrade -o requirements.lock
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --extra yaml --extra spark --group dev pyproject.toml -c requirements.lock \
		--upgrade -o requirements-spark.lock
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --group docs --upgrade -o requirements-docs.lock
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) $(SPARK_VENV) $(DOCS_VENV) .venv-lock .site .mypy_cache .ruff_cache .pytest_cache .hypothesis .real-logs .bench $(REPORT)

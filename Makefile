# make demo   train, translate and score on the quickstart example (no download of data)
# make test   lint and run all tests
# make coverage  the tests, and which lines and branches no test runs
# make soak   the tests of drawn examples, with more of them
# make lint   ruff, mypy, and the contract on imports of pyproject.toml
# make tables rebuild every table, number and picture in the pages from docs/results/results.jsonl
# make wheels  a wheel of the runtime for each platform, in runtime/dist
# All of them make the environment $(VENV) first; PYTHON=python3.12 chooses its Python
# (after make clean, if there is one).
PYTHON ?=
VENV ?= .venv
RUN = $(VENV)/bin/python

.PHONY: demo test coverage soak lint tables wheels env clean

demo: env
	$(RUN) examples/quickstart/run.py

PYTEST = $(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: env lint
	$(PYTEST)

coverage: env
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

soak: env
	$(PYTEST) -m hypothesis --hypothesis-profile=soak

lint: env
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(VENV)/bin/lint-imports --no-cache
	$(RUN) -m mypy

tables: env
	$(RUN) scripts/tables.py

wheels: env
	$(VENV)/bin/uv pip install -q --python $(RUN) -r scripts/zig.txt
	$(RUN) scripts/wheels.py

env: $(VENV)/.complete

$(VENV)/.complete: setup.py scripts/requirements.txt scripts/torch.txt scripts/make_env.sh
	@rm -f $(VENV)/.complete
	@bash scripts/make_env.sh $(VENV) $(PYTHON)

clean:
	rm -rf $(VENV) $(VENV).log examples/*/out build *.egg-info

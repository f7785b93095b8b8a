# make demo   train, translate and score on the quickstart example (no download of data)
# make test   lint and run all tests
# make soak   faults, hostile input and long runs: what is too long for make test (an hour or two)
# make lint   ruff, and the contract on imports of pyproject.toml
# make tables rebuild every table, number and picture in the pages from docs/results/results.jsonl
# All make the environment $(VENV) first; PYTHON=python3.12 chooses the Python.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python

.PHONY: demo test soak lint tables env clean

demo: env
	$(RUN) examples/quickstart/run.py

test: env lint
	$(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

soak: env
	$(RUN) -m pytest -n 2 -m "soak or hypothesis" --hypothesis-profile=soak
	$(RUN) tests/mutants/gate.py

gate: env
	$(RUN) tests/mutants/gate.py

lint: env
	$(RUN) -m ruff check .
	$(VENV)/bin/lint-imports --no-cache

tables: env
	$(RUN) scripts/tables.py

env: $(VENV)/.complete

$(VENV)/.complete: setup.py scripts/requirements.txt scripts/torch.txt scripts/make_env.sh
	@rm -f $(VENV)/.complete
	@bash scripts/make_env.sh $(VENV) $(PYTHON)

clean:
	rm -rf $(VENV) $(VENV).log examples/*/out build *.egg-info

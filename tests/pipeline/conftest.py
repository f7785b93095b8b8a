"""The road's trainings are called in this process, which saves the start of a program for each."""

import logging
from unittest import mock

import pytest
from fairseq_programs import call


def run_here(name, command, log, on_line, environment):
    """Stands for ``run_command``."""
    before = logging.root.manager.disable
    logging.disable(logging.NOTSET)  # as a program of its own logs
    try:
        said = call("train", *command[1:]).log
    finally:
        logging.disable(before)
    with open(log, "a", encoding="utf-8") as file:
        file.write(said)
    for line in said.splitlines():
        on_line(line)


@pytest.fixture(scope="module")
def trained_here():
    with mock.patch("resmlp_mt.pipeline.train.training.run_command", run_here):
        yield

"""What a user can mend ends in one line and a non-zero exit, and no checkpoint runs code."""

import os
import shutil

import pytest
import torch
from cli import call, console_script, generate, load, process, train

from resmlp_mt.compat.program_errors import explain

SHORT = ("--batch-size", 8, "--max-epoch", 1)


def one_line(capsys, run, *arguments, **keywords):
    """What a user would see last on stderr when ``run(*arguments)`` fails."""
    with pytest.raises((Exception, SystemExit)) as caught:
        run(*arguments, **keywords)
    if isinstance(caught.value, SystemExit):
        assert caught.value.code not in (0, None)
        message = capsys.readouterr().err.splitlines()[-1]
    else:
        message = explain(caught.value)
        assert message is not None, repr(caught.value)
    return " ".join(message.split())


def last_line(result):
    """The last line on stderr of a process that failed without a traceback."""
    assert result.returncode not in (0, None)
    assert "Traceback" not in result.stderr + result.stdout
    return result.stderr.splitlines()[-1]


class _Command:
    """Pickled, it asks whoever loads it to run a shell command."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.fixture
def bad_checkpoint(trained, tmp_path):
    """A whole checkpoint, but for code that would touch a file; and that file."""
    path, witness = tmp_path / "bad.pt", tmp_path / "witness"
    torch.save({**load(trained.path), "extra": _Command(f"touch {witness}")}, path)
    return path, witness


def test_code_in_a_checkpoint(trained, bad_checkpoint):
    path, witness = bad_checkpoint
    result = process(
        *(console_script("generate"), trained.data, "--path", path, "--cpu"),
        *("--user-dir", "resmlp_mt"),
    )
    message = last_line(result)
    assert message.startswith("fairseq-generate: error:") and str(path) in message
    assert "refused" in message
    assert not witness.exists()
    torch.load(path, weights_only=False)  # what was refused would have run
    assert witness.exists()


def test_code_in_a_checkpoint_to_continue_from(corpus, bad_checkpoint, tmp_path, capsys):
    path, witness = bad_checkpoint
    for option in ("--restore-file", "--finetune-from-model"):
        save_dir = tmp_path / option
        message = one_line(capsys, train, corpus.data, save_dir, *SHORT, option, path)
        assert str(path) in message and "refused" in message
        assert not witness.exists()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated_checkpoint(trained, tmp_path, capsys, share):
    path = tmp_path / "short.pt"
    content = trained.path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    message = one_line(capsys, generate, trained.data, path)
    assert str(path) in message


def test_missing_checkpoint(trained, tmp_path, capsys):
    message = one_line(capsys, generate, trained.data, tmp_path / "none.pt")
    assert str(tmp_path / "none.pt") in message


def test_checkpoint_of_other_sizes(trained, tmp_path, capsys):
    wider = ("--encoder-embed-dim", 24)
    for option in ("--restore-file", "--finetune-from-model"):
        save_dir = tmp_path / option
        message = one_line(
            capsys, train, trained.data, save_dir, *SHORT, *wider, option, trained.path
        )
        assert str(trained.path) in message and "does not fit" in message


def test_checkpoint_without_the_optimizers_state(trained, tmp_path, capsys):
    """It is never continued as if its warm-up had not been yet; its weights can be had."""
    state = load(trained.path)
    state.pop("last_optimizer_state")
    path = tmp_path / "averaged.pt"
    torch.save(state, path)
    message = one_line(capsys, train, trained.data, tmp_path / "on", *SHORT, "--restore-file", path)
    assert str(path) in message and "has no state of an optimizer" in message
    assert not list((tmp_path / "on").glob("*.pt"))
    more = ("--batch-size", 8, "--max-epoch", 20)
    for options in (["--finetune-from-model", path], ["--restore-file", path, "--reset-optimizer"]):
        save_dir = tmp_path / options[0]
        train(trained.data, save_dir, *more, *options)
        assert (save_dir / "checkpoint_last.pt").exists()


def test_checkpoint_of_a_transformer(corpus, tmp_path, capsys):
    other = tmp_path / "transformer"
    options = ("--arch", "transformer", "--encoder-attention-heads", 2)
    train(corpus.data, other, *SHORT, *options)
    path = other / "checkpoint_last.pt"
    message = one_line(
        capsys, train, corpus.data, tmp_path / "ours", *SHORT, "--restore-file", path
    )
    assert str(path) in message and "does not fit" in message


def test_long_sentence(trained, capsys):
    """5,000 words for a model of 32 positions: the number, the limit and the option."""
    options = ("--path", trained.path, "--cpu")
    text = " ".join(["w01"] * 5000) + "\n"
    message = one_line(capsys, call, "interactive", trained.data, *options, stdin=text)
    assert "5001" in message and "32" in message and "--max-source-positions" in message


def test_unknown_architecture(corpus, tmp_path, capsys):
    message = one_line(capsys, train, corpus.data, tmp_path, *SHORT, "--arch", "resmlp_mt_7")
    assert "resmlp_mt_7" in message and "resmlp_mt_6" in message


def test_save_dir_below_a_file(corpus, tmp_path):
    """By a process of its own: exit status and stderr are what a shell sees."""
    (tmp_path / "file").write_text("")
    save_dir = tmp_path / "file" / "save"
    result = process(
        *(console_script("train"), corpus.data, "--user-dir", "resmlp_mt"),
        *("--arch", "resmlp_mt_tiny", "--optimizer", "adagrad", "--cpu", *SHORT),
        *("--save-dir", save_dir),
    )
    message = last_line(result)
    assert message.startswith("fairseq-train: error:") and str(save_dir) in message


def test_missing_data(tmp_path, capsys, corpus):
    data = tmp_path / "data"
    shutil.copytree(corpus.data, data)
    for path in data.glob("train*"):
        path.unlink()
    message = one_line(capsys, train, data, tmp_path / "save", *SHORT)
    assert "train" in message and str(data) in message

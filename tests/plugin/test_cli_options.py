"""fairseq's options and its hydra program: a ResMLP trains, loads and scores like its models."""

import re

import pytest
from fairseq_programs import (
    LAST,
    PACKAGE,
    differing,
    generate,
    hypotheses,
    lines,
    load,
    train,
    values,
)
from processes import forked


def test_eval_bleu(corpus, tmp_path):
    """BLEU while training is fairseq-generate's, changes nothing, and is resumed."""
    watched, plain = tmp_path / "watched", tmp_path / "plain"
    options = ("--batch-size", 8, "--max-epoch", 6, "--validate-interval", 3)
    options = (*options, "--valid-subset", "train", "--ignore-unused-valid-subsets")
    watching = ("--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 10}')
    watching += ("--eval-bleu-remove-bpe",)
    log = train(corpus.data, watched, *options, *watching).log
    train(corpus.data, plain, *options)
    assert differing(*(load(folder / LAST)["model"] for folder in (watched, plain))) == []
    bleu = values(log, "train_bleu")  # the name of the subset
    assert len(bleu) == 2 and bleu[-1] > 1
    out = generate(
        *(corpus.data, watched / LAST, "--gen-subset", "train", "--beam", 2),
        *("--max-len-b", 10, "--scoring", "sacrebleu", "--post-process"),
    )
    assert f"BLEU = {bleu[-1]:.2f}" in out or f'"score": {bleu[-1]:.1f}' in out, out[-300:]

    # the counts that BLEU is made of are in the checkpoint, and training resumes from there
    log = train(corpus.data, watched, *options, *watching, "--max-epoch", 9).log
    assert len(values(log, "train_bleu")) == 1


def test_trained_by_hydra(corpus, tmp_path):
    words = [f"common.user_dir={PACKAGE}", "common.cpu=true", "common.log_interval=1"]
    words += ["common.log_format=json", "task=translation", f"task.data={corpus.data}"]
    words += ["+model._name=resmlp_mt_6", "+model.encoder_layers=2", "+model.decoder_layers=2"]
    words += ["+model.encoder_embed_dim=16", "+model.encoder_ffn_embed_dim=32"]
    words += ["+model.decoder_attention_heads=2", "+model.max_source_positions=32"]
    words += ["+model.max_target_positions=32", "+model.token_mixing_heads=2"]
    # fairseq has Adagrad for hydra only by its bare name
    words += ["+optimizer._name=adagrad", "+optimizer.lr=[0.05]", "+optimizer.weight_decay=0"]
    words += ["optimization.lr=[0.05]", "optimization.max_epoch=2", "dataset.batch_size=8"]
    words += ["lr_scheduler.warmup_updates=5", "dataset.num_workers=0", "criterion=cross_entropy"]
    words += [f"checkpoint.save_dir={tmp_path / 'save'}", f"hydra.run.dir={tmp_path}"]
    status = forked("fairseq_cli.hydra_train", words, tmp_path / "log").wait()
    said = (tmp_path / "log").read_text()
    assert status == 0, said[-2000:]
    losses = [float(x) for x in re.findall(r'"train_loss": "([\d.]+)"', said)]
    assert len(losses) == 2 and losses[1] < losses[0]

    path = tmp_path / "save" / "checkpoint_last.pt"
    state = load(path)
    assert isinstance(state["cfg"]["model"], dict)
    matrix = "encoder.layers.{}.token_mixing.mixing.weight".format
    assert state["model"][matrix(1)].shape == (2, 32, 32) and matrix(2) not in state["model"]
    assert len(hypotheses(generate(corpus.data, path))) == corpus.sizes["test"]


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignment(trained, corpus, kind):
    """The same for either padding side and any batch; a soft one sums to 1 for each word."""

    def aligned(*options):
        out = generate(trained.data, trained.path, "--print-alignment", kind, *options)
        return out, {
            number: [[float(x) for x in row.replace("-", ",").split(",")] for row in words.split()]
            for number, ((words,),) in lines(out, "A").items()
        }

    out, first = aligned("--batch-size", 64)
    words, sources = lines(out, "H"), lines(out, "S")
    assert len(first) == corpus.sizes["test"]
    for number, rows in first.items():
        length, width = len(words[number][0][1].split()), len(sources[number][0][0].split())
        if kind == "hard":
            assert [target for _, target in rows] == list(range(length))
            assert all(0 <= source < width for source, _ in rows)
        else:  # the end of sentence, too
            assert {len(row) for row in rows} == {width + 1} and len(rows) == length + 1
            assert [sum(row) for row in rows] == pytest.approx([1] * (length + 1), abs=0.01)
    # the option turns padding to the left off in fairseq
    alone, right = ("--batch-size", 1), ("--batch-size", 64, "--left-pad-source")
    for options in [alone] if kind == "hard" else [alone, right]:
        for number, rows in aligned(*options)[1].items():
            assert sum(rows, []) == pytest.approx(sum(first[number], []), abs=1e-3)

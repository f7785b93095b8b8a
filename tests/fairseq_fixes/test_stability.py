"""Training that diverges: how it differs from training that does not, and what its user reads."""

import logging
from types import SimpleNamespace

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.nan_detector import NanDetector
from fairseq.trainer import Trainer
from fairseq_programs import RECIPE, SMALL_MODEL, refusal, train, values
from helpers import SMALL, build_model, pad_batch, random_sentences, shift

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes import trainings as divergence
from resmlp_mt.model.architectures import ARCHITECTURES

SHORT = ("--batch-size", 8, "--max-update", 3, "--no-save")
NO_WARM_UP = ("--warmup-updates", 0)


def test_with_warm_up(corpus, tmp_path):
    options = ("--lr", 0.05, "--warmup-updates", 25, "--batch-size", 8, "--max-update", 30)
    log = train(corpus.data, tmp_path, *options, "--no-save").log
    found = values(log, "loss")
    assert len(found) == 30 and found[-1] < found[0] and max(found) < 1.1 * found[0]
    assert values(log, "lr")[-1] == 0.05 and "likely to diverge" not in log


@torch.no_grad()
def first_states(arch, **options):
    """Standard deviation of the decoder's states in a new model of an architecture's own size."""
    own = dict.fromkeys(set(SMALL) - {"dropout", "max_source_positions", "max_target_positions"})
    options.update(own, share_all_embeddings=True)
    model, dictionary = build_model(arch, randomize=False, **options)
    source = pad_batch(random_sentences(dictionary, (20, 20)), dictionary, left=True)
    targets = pad_batch([shift(s) for s in random_sentences(dictionary, (20, 18))], dictionary)
    return model(source, None, targets, features_only=True)[0].std()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_named_architectures_begin_small(arch):
    """Nothing normalizes: what LayerScale lets grow from layer to layer reaches the last one."""
    assert 0.5 < first_states(arch) < 2


@pytest.mark.parametrize(
    "arch, growth", [("resmlp_mt_6", 3), ("resmlp_mt_12", 20), ("resmlp_mt_conv_12", 1000)]
)
def test_deep_models_want_a_small_layerscale(arch, growth):
    assert growth < first_states(arch, layerscale_init=1.0) < 10 * growth


def configuration(name="adagrad", rate=0.2, warm_up=0):
    return SimpleNamespace(
        optimization=SimpleNamespace(lr=[rate]),
        optimizer=SimpleNamespace(_name=name),
        lr_scheduler=SimpleNamespace(warmup_updates=warm_up),
    )


def test_which_recipes_are_warned_of():
    none = divergence.warning(configuration())
    assert "--lr 0.2 without --warmup-updates: " in none and "\n" not in none
    paper, enough = dict(rate=0.2, warm_up=32000), dict(rate=0.2, warm_up=331)
    for other in (paper, enough, dict(name="adam"), dict(rate=0.001), dict(warm_up=None)):
        assert divergence.warning(configuration(**other)) is None
    assert divergence.warning(configuration(rate=divergence.WARN_FROM)) is not None
    short = divergence.warning(configuration(warm_up=330))
    assert "--lr 0.2 with --warmup-updates 330: " in short
    assert "give --warmup-updates of at least 331 " in short and "\n" not in short
    # the shortest warm-up and the lowest rates that have been seen to diverge
    for rate, warm_up in ((0.2, 100), (0.05, 0), (0.02, 0)):
        assert divergence.warning(configuration(rate=rate, warm_up=warm_up)) is not None


@pytest.mark.parametrize(
    "options, times",
    [
        (NO_WARM_UP, 1),
        ((), 1),
        (("--warmup-updates", 21), 0),
        ((*NO_WARM_UP, "--arch", "transformer", "--encoder-attention-heads", 2), 0),
    ],
    ids=["without", "short", "with", "transformer"],
)
def test_warned_once_when_training_begins(corpus, tmp_path, options, times):
    log = train(corpus.data, tmp_path, *SHORT, *options).log
    assert log.count("training is likely to diverge: give --warmup-updates") == times


def test_divergence_ends_in_one_line(corpus, tmp_path):
    options = (*SHORT, "--lr", 1e8, *NO_WARM_UP, "--save-dir", tmp_path)
    said = refusal("train", corpus.data, *SMALL_MODEL, *RECIPE, *options)
    assert said.startswith("training has diverged: the gradients of update ")
    assert f"{tmp_path}/crash.pt" in said and (tmp_path / "crash.pt").exists()
    for option in ("--lr", "--warmup-updates", "--clip-norm"):
        assert option in said


def inconsistent(*norms):
    """What the trainer of fairseq says of these gradients of its workers."""
    common = SimpleNamespace(amp=False)
    trainer = SimpleNamespace(
        _grad_norm_buf=torch.tensor(norms),
        data_parallel_rank=0,
        data_parallel_process_group=None,
        cfg=SimpleNamespace(common=common),
    )
    with pytest.MonkeyPatch.context() as patch, pytest.raises(FloatingPointError) as caught:
        sums = torch.tensor(norms)
        patch.setattr(distributed_utils, "all_reduce", lambda norms, group: norms.copy_(sums))
        Trainer._check_grad_norms(trainer, norms[0])
    return str(caught.value)


@pytest.mark.parametrize(
    "text, said",
    [
        ("gradients are Nan/Inf", "update 7 are not finite (the weights before it: save/crash.pt)"),
        ((float("nan"), float("nan")), "of update 7 are not finite"),
        ("Minimum loss scale reached (0.0001). Your loss", "minimum loss scale"),
        ("AMP: Minimum loss scale reached (0.0001). Your loss", "minimum loss scale"),
    ],
)
def test_what_is_explained(text, said):
    """Also in half precision, and by several workers, whose gradients stand in place of a text."""
    if isinstance(text, tuple):
        text = inconsistent(*text)
    with pytest.raises(UserError) as caught:
        fail_in_a_step(text)
    assert said in str(caught.value) and "lower --lr" in str(caught.value)


def test_what_keeps_its_traceback():
    for text in ("division by zero", inconsistent(1.25, 1.5)):
        with pytest.raises(FloatingPointError):
            fail_in_a_step(text)


def fail_in_a_step(text):
    """A step of fairseq's trainer that ends in its error *text*."""

    def train_step(trainer, samples):
        raise FloatingPointError(text)

    checkpoint = SimpleNamespace(save_dir="save")
    trainer = SimpleNamespace(get_num_updates=lambda: 6, cfg=SimpleNamespace(checkpoint=checkpoint))
    divergence.train_step(train_step, trainer, [])


def detect(model, compute, caplog):
    """What fairseq's detector logs of ``compute()`` and its backward pass."""
    with caplog.at_level(logging.WARNING), NanDetector(model):
        compute().backward()
    return [r.getMessage() for r in caplog.records if r.name == "fairseq.nan_detector"]


def test_detector_names_the_module(caplog):
    model, dictionary = build_model()
    source = pad_batch(random_sentences(dictionary, (3, 5)), dictionary, left=True)
    broken = model.encoder.layers[1].feed_forward.fc1
    with torch.no_grad():
        broken.bias[0] = torch.inf
    found = detect(model, lambda: model.encoder(source)["encoder_out"][0].sum(), caplog)
    forward, backward = [line.split(", shape")[0] for line in found]
    assert forward == "Inf detected in output of encoder.layers.1.feed_forward.fc1"
    assert backward == "NaN detected in output of encoder.layers.1.feed_forward.fc1"


def test_detector_watches_gradients_of_the_encoders_output(caplog):
    """Finite on the way up, not on the way down: the root's slope at 0, times 0."""
    model, dictionary = build_model()
    source = pad_batch(random_sentences(dictionary, (3, 5)), dictionary, left=True)
    (line,) = detect(
        model, lambda: (model.encoder(source)["encoder_out"][0] * 0).sum().sqrt(), caplog
    )
    assert "NaN detected in output of encoder, " in line and line.endswith("backward")
    assert not any(m._forward_hooks or m._backward_hooks for m in model.modules())

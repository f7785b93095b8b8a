"""What the paper says of training on WMT14, and what it leaves open, as options of fairseq-train.

**The paper's** (section 3), for ``resmlp_mt_*``: Adagrad, learning rate 0.2, linear warm-up over
32,000 updates and constant afterwards, label smoothing 0.1, dropout 0.15 (En-De) or 0.1 (En-Fr),
LayerScale from 0.2, one embedding for source, target and output. fairseq's ``fixed`` schedule with
one ``--lr`` and no ``--force-anneal`` is that warm-up. The paper names neither weight decay nor
clipping: both are off, as in Ott et al. (2018), whose setup it follows.

**The baseline's**, for ``transformer_*``: the base model of Vaswani et al. (2017) for both pairs.
Adam with betas 0.9 and 0.98, linear warm-up over 4,000 updates to 7e-4 (their 512**-0.5 *
4000**-0.5), then the inverse square root of the update, dropout 0.1, label smoothing 0.1. It gets
the same batches and the same number of updates.

**Ours**, as the paper leaves them open:

- *Tokens an update: 32,768.* That is 8 GPUs x 4,096, the usual command for a Transformer-base in
  fairseq, and near the 25,000 of Vaswani et al. Ott et al. reach their best with 128 GPUs x 3,584,
  some 400,000 an update, but the paper's warm-up speaks against that here: 32,000 such updates are
  near a hundred passes over En-De (4.5 million pairs of some 30 tokens), and eight with ours.
- *Updates: 300,000*, the longer of the two trainings of Vaswani et al., whose warm-up is an eighth
  of this one. Both models take the same.
- *Positions: 256* on either side, for at most 250 pieces (the limit of the prepared corpus) and the
  end of the sentence, rounded up to what a GPU likes. A mixing matrix is positions x positions.
- *Checkpoints: one in 2,000 updates, of which the last ten are kept*: what is averaged covers the
  last 18,000 updates. Those at the ends of epochs are not kept, as an epoch of En-Fr is ten times
  one of En-De.

Precision is left open too: float32 by default. Of fairseq's switches only ``--fp16`` will do, with
``--fp16-no-flatten-grads``. ``--bf16`` is for TPUs (it implies ``--tpu``). ``--amp`` divides the
gradients by the loss scale twice, as it gives ``GradScaler.unscale_`` the optimizer, but
``GradScaler.step`` the object around it: Adagrad, which adds up their squares, learns ever less as
the scale grows.

``--update-epoch-batch-itr`` is what makes a run that was stopped and continued the same as one that
was not: without it fairseq makes other batches after a stop.
"""

from typing import Dict, List

from fairseq.models import ARCH_MODEL_NAME_REGISTRY

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.recipes import Pair

TOKENS_PER_UPDATE = 32768
UPDATES = 300_000
POSITIONS = 256
RESMLP, BASELINE = "resmlp_mt", "transformer"  # models, by the names they are registered under

Options = Dict[str, List[str]]  # a command line: each option's values, none for a switch

_BOTH = {
    "--task": ["translation"],
    "--share-all-embeddings": [],
    "--criterion": ["label_smoothed_cross_entropy"],
    "--label-smoothing": ["0.1"],
    "--weight-decay": ["0.0"],
    "--clip-norm": ["0.0"],
    "--max-source-positions": [str(POSITIONS)],
    "--max-target-positions": [str(POSITIONS)],
    "--skip-invalid-size-inputs-valid-test": [],
    "--update-epoch-batch-itr": ["True"],
    "--save-interval-updates": ["2000"],
    "--keep-interval-updates": ["10"],
    "--no-epoch-checkpoints": [],
    "--log-format": ["json"],
    "--log-interval": ["100"],
}
_MODEL = {
    RESMLP: {
        "--optimizer": ["adagrad"],
        "--lr": ["0.2"],
        "--lr-scheduler": ["fixed"],
        "--warmup-updates": ["32000"],
        "--layerscale-init": ["0.2"],
    },
    BASELINE: {
        "--optimizer": ["adam"],
        "--adam-betas": ["(0.9, 0.98)"],
        "--lr": ["0.0007"],
        "--lr-scheduler": ["inverse_sqrt"],
        "--warmup-updates": ["4000"],
        "--warmup-init-lr": ["1e-07"],
    },
}
_DROPOUT = {
    RESMLP: {"en-de": "0.15", "en-fr": "0.1"},
    BASELINE: {"en-de": "0.1", "en-fr": "0.1"},
}
# --fp16 keeps one flat copy of all weights unless told not to, and Adagrad cannot work on that
_PRECISION = {
    "fp32": {},
    "tf32": {},
    "fp16": {"--fp16": [], "--fp16-no-flatten-grads": []},
}
PRECISIONS = tuple(_PRECISION)


def recipe(pair: Pair, arch: str, precision: str = "fp32") -> Options:
    """The options of ``fairseq-train`` for one pair and architecture, in the order of this file.

    Args:
        pair: what to translate.
        arch: an architecture of ``resmlp_mt`` or of fairseq's ``transformer``.
        precision: one of :data:`PRECISIONS`.

    Raises:
        UserError: for an architecture of another model.
    """
    model = ARCH_MODEL_NAME_REGISTRY.get(arch)
    if model not in _MODEL:
        raise UserError(
            f"--arch {arch}: there is a recipe for resmlp_mt_6, resmlp_mt_12, the same two as "
            "resmlp_mt_toeplitz_*, resmlp_mt_tiny and for fairseq's transformer_wmt_en_de and its "
            "other transformer_*"
        )
    return {
        "--arch": [arch],
        "--source-lang": [pair.source],
        "--target-lang": [pair.target],
        **_BOTH,
        **_MODEL[model],
        "--dropout": [_DROPOUT[model][pair.name]],
        **_PRECISION[precision],
    }


def parse_options(words: List[str]) -> Options:
    """A command line of fairseq's as its options.

    Args:
        words: ``["--lr", "0.1", "--cpu"]``.

    Raises:
        UserError: for a word that belongs to no option, or a short option.
    """
    options: Options = {}
    values = None
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            values = options[name] = [value] if equals else []
        elif values is None or (word[:1] == "-" and word[1:2].isalpha()):
            raise UserError(f"{word}: after -- write fairseq-train's options by their long names")
        else:
            values.append(word)
    return options


def command_line(options: Options) -> List[str]:
    """The options as words again."""
    return [word for name, values in options.items() for word in (name, *values)]

"""Checkpoints whose file is sound, but whose weights, options or training state are not."""

import random
import zipfile
from io import BytesIO
from typing import Iterator

import torch
from hostile_checkpoint_cases import OPTIONS_OF_THEIR_OWN, Case, repacked, saved, with_change

_MATRIX = "encoder.layers.1.token_mixing.mixing.weight"
_VECTOR = "decoder.layers.0.feed_forward.post.alpha"
AVERAGE = frozenset({"average"})  # of any model, of whose options it knows nothing
LOOKING = frozenset({"average", "fold", "prune", "plot"})  # at the model alone


def weights(state: dict) -> Iterator[Case]:
    """Parameters of the wrong shape or kind, missing, surplus, or no numbers."""

    def case(name: str, change, other=AVERAGE, expected="refused") -> Case:
        return Case(name, saved(with_change(state, lambda s: change(s["model"]))), expected, other)

    embedding = "encoder.embed_tokens.weight"
    yield case("a matrix a row short", lambda m: m.update({_MATRIX: m[_MATRIX][:, 1:]}))
    yield case("a vector too long", lambda m: m.update({_VECTOR: torch.ones(17)}))
    yield case("a scalar for a vector", lambda m: m.update({_VECTOR: torch.tensor(1.0)}))
    yield case("an embedding too many", lambda m: m.update({embedding: torch.ones(57, 16)}))
    yield case("a missing matrix", lambda m: m.pop(_MATRIX))
    yield case("a missing embedding", lambda m: m.pop(embedding))
    yield case("a surplus key", lambda m: m.update(surplus=torch.ones(2)))
    yield case("a key that is a number", lambda m: m.update({7: torch.ones(2)}), frozenset())
    yield case("a string for a tensor", lambda m: m.update({_VECTOR: "1"}), frozenset())
    yield case("a list for a tensor", lambda m: m.update({_VECTOR: [1.0] * 16}), frozenset())
    sparse = torch.ones(16).to_sparse()
    yield case("a sparse tensor", lambda m: m.update({_VECTOR: sparse}), frozenset())
    empty = torch.ones(16, device="meta")
    yield case("a tensor without values", lambda m: m.update({_VECTOR: empty}), frozenset())
    for value in ("nan", "inf", "-inf"):
        for name in (_MATRIX, _VECTOR, embedding):

            def broken(m, name=name, value=value):
                m[name] = m[name].clone()
                m[name].view(-1)[5] = float(value)

            yield case(f"{value} in {name}", broken, frozenset())
    for size in (16, 1 << 40):
        repeated = torch.ones(1).expand(size)
        change = lambda m, v=repeated: m.update({_VECTOR: v})  # noqa: E731
        yield case(f"a tensor of {size} times the same", change, frozenset())
    half = {name: weight.half() for name, weight in state["model"].items()}
    half[_VECTOR][3] = float("nan")
    yield case("nan in 16 bits", lambda m: m.update(half), frozenset())
    yield Case("no weights", saved({**state, "model": {}}), "refused", AVERAGE)
    for model in ([1], None, "x"):
        yield Case(f"the weights are {model!r}", saved({**state, "model": model}), "refused")


def optimizers(state: dict) -> Iterator[Case]:
    """The optimizer's state is no numbers: the weights are, and can be had."""

    def case(name: str, change) -> Case:
        content = saved(with_change(state, lambda s: change(s["last_optimizer_state"]["state"])))
        return Case(f"{name} in the optimizer's state", content, "refused", ANY - {"resume"})

    for value in ("nan", "inf"):

        def broken(of_parameters, value=value):
            sums = of_parameters[2]["sum"].clone()
            sums.view(-1)[-1] = float(value)
            of_parameters[2]["sum"] = sums

        yield case(value, broken)
    yield case("a tensor repeated", lambda s: s[2].update(sum=torch.ones(1).expand(16)))


def options(state: dict) -> Iterator[Case]:
    """The model's options of another version: added, left out, of other types or values."""

    def case(name: str, expected: str, *gone, **values) -> Case:
        def change(s):
            options = vars(s["cfg"]["model"])
            for option in gone:
                options.pop(option)
            options.update(values)

        return Case(name, saved(with_change(state, change)), expected, OPTIONS_OF_THEIR_OWN)

    ours = [n for n in vars(state["cfg"]["model"]) if "token_mixing" in n]
    ours += ["folded", "inference_precision", "layerscale_init", "normalization"]
    yield case("an unknown option", "loaded", surprise="x", another=[1, {"y": 2}])
    yield case("none of our options", "loaded", *ours)
    yield case("no max_source_positions", "refused", "max_source_positions")
    yield case("no encoder_layers", "refused", "encoder_layers")
    yield case("no name", "either", "_name", "arch")
    for name in ("resmlp_mt_99", "", None, 7, "transformer", "lstm"):
        yield case(f"the architecture {name!r}", "either", _name=name, arch=name)
    wrong = {
        "encoder_layers": ("2", None, [2], 1, 3, -1, 2.5, float("nan"), {"n": 2}),
        "encoder_embed_dim": ("sixteen", 0, 17, None, 1 << 40),
        "decoder_attention_heads": (0, 3, "2"),
        "max_source_positions": (-1, 0, 31, 33, "32", None, 1 << 20),
        "max_target_positions": (31, [32]),
        "token_mixing": ("quantum", "toeplitz", None, 3),
        "token_mixing_heads": (0, 3, 2, "1"),
        "normalization": ("layernorm", "x", None),
        "inference_precision": ("int9", None),
        "folded": (True, "yes"),
        "activation_fn": ("nonesuch", 7, None),
        "dropout": ("a", None, -1.0, 7.0),
        "layerscale_init": ("x", None),
        "share_all_embeddings": ("no", None, False),
        "adaptive_softmax_cutoff": ("x", [1], "10,20"),
        "encoder_layers_to_keep": ("0", "x", [0]),
        "encoder_embed_path": ("/nowhere",),
        "quant_noise_pq": (0.5, "x"),
    }
    for option, values in wrong.items():
        for value in values:
            yield case(f"{option} = {value!r}", "either", **{option: value})


def frames(state: dict) -> Iterator[Case]:
    """What stands around the model."""

    def case(name: str, change, other=OPTIONS_OF_THEIR_OWN, expected="either") -> Case:
        return Case(name, saved(with_change(state, change)), expected, other)

    every = OPTIONS_OF_THEIR_OWN | LOOKING
    for value in (None, {}, [], "x", 3):
        yield case(f"cfg is {value!r}", lambda s, v=value: s.update(cfg=v))
        yield case(f"cfg.model is {value!r}", lambda s, v=value: s["cfg"].update(model=v))
        yield case(f"cfg.task is {value!r}", lambda s, v=value: s["cfg"].update(task=v), every)
        yield case(f"cfg.generation is {value!r}", lambda s, v=value: s["cfg"].update(generation=v))
    for task in ("nonesuch", "language_modeling", None):
        yield case(f"the task {task!r}", lambda s, t=task: s["cfg"]["task"].update(_name=t), every)
    for language in ("zz", 5):
        change = lambda s, v=language: s["cfg"]["task"].update(source_lang=v, target_lang="yy")  # noqa: E731
        yield case(f"the source language {language!r}", change, every)
    yield case("an interpolation", lambda s: s["cfg"]["common"].update(log_file="${oc.env:HOME}"))
    for name in ("extra_state", "optimizer_history", "last_optimizer_state", "task_state"):
        yield case(f"no {name}", lambda s, n=name: s.pop(n))
        for value in (None, [], "x", [{}], {"a": 1}):
            yield case(f"{name} is {value!r}", lambda s, n=name, v=value: s.update({n: v}))
    for name in ("train_iterator", "val_loss", "metrics"):
        yield case(f"no {name}", lambda s, n=name: s["extra_state"].pop(n, None))
        yield case(f"{name} is 'x'", lambda s, n=name: s["extra_state"].update({n: "x"}))


def mutated(state: dict, seeds: range) -> Iterator[Case]:
    """Three random bytes of the pickled part changed, with checksums that go with them: anything
    may have been meant, but it must be read as data, and refused with one line."""
    archive = saved(state)
    with zipfile.ZipFile(BytesIO(archive)) as file:
        pickled = file.read(next(n for n in file.namelist() if n.endswith("data.pkl")))
    for seed in seeds:
        draw = random.Random(seed)
        changed = bytearray(pickled)
        for offset in draw.sample(range(len(pickled)), 3):
            changed[offset] = draw.randrange(256)
        yield Case(f"pickle changed, seed {seed}", repacked(archive, bytes(changed)), "either", ANY)


ANY = OPTIONS_OF_THEIR_OWN | LOOKING | {"generate", "interactive", "hub", "translate", "distill"}
ANY |= {"attention"}

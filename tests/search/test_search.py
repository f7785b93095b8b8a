"""Our beam search finds what fairseq's SequenceGenerator finds, and leaves the rest to it."""

from argparse import Namespace

import pytest
import torch
from fairseq import search as fairseq_search
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer import base_architecture as transformer_defaults
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.token_generation_constraints import pack_constraints
from helpers import MIXINGS, SMALL, build_model, change, gap, pad_batch, random_sentences

from resmlp_mt.model import memory
from resmlp_mt.model.inference import fold_
from resmlp_mt.model.memory import DecodingMemory
from resmlp_mt.model.model import ResMLPModel
from resmlp_mt.search import beam_search, candidates
from resmlp_mt.search.beam_search import NotFinite, ResMLPGenerator
from resmlp_mt.search.hypotheses import Hypotheses

SEARCHES = {
    "greedy": dict(beam_size=1, max_len_b=10),
    "max-len-a": dict(beam_size=2, max_len_a=1.2, max_len_b=3, min_len=3, len_penalty=0.6),
    "unk-penalty": dict(beam_size=4, max_len_b=15, min_len=0, unk_penalty=0.5),
    "large penalty": dict(beam_size=5, max_len_a=0.5, max_len_b=6, len_penalty=1.4),
    "sums": dict(beam_size=8, max_len_a=1, max_len_b=1, normalize_scores=False, unk_penalty=-3.0),
    "up to the positions": dict(beam_size=5, max_len_b=200, min_len=3),
    "max-len": dict(beam_size=2, max_len=6, min_len=5),
    "EOS alone": dict(beam_size=3, max_len_b=0, min_len=0),
    "other EOS and BOS": dict(beam_size=3, max_len_b=9, eos=6, call={"bos_token": 7}),
    "tokens once": dict(beam_size=3, max_len_a=0.5, max_len_b=6, no_repeat_ngram_size=1),
    "bigrams once": dict(beam_size=4, max_len_b=18, min_len=9, no_repeat_ngram_size=2),
    "trigrams once": dict(beam_size=2, max_len_a=1, max_len_b=9, no_repeat_ngram_size=3),
}
# without mixing the same tokens score the same in many orders: which comes first is chance
MODELS = {
    **{f"{kind}, {n} heads": dict(token_mixing=kind, token_mixing_heads=n) for kind, n in MIXINGS},
    "a wider decoder": {"encoder_embed_dim": 12, "decoder_embed_dim": 16},
    "layernorm": {"normalization": "layernorm"},
    "sinusoidal positions": {"token_positional_embeddings": True},
    "learned positions": {"token_positional_embeddings": True, "decoder_learned_pos": True},
}
# of the source sentences, and the side of their padding
BATCHES = (((12, 3, 7), True), ((10, 2, 5, 12, 1, 7), False), ((1,), True))


def batch_of(dictionary, lengths, left=True):
    sentences = random_sentences(dictionary, lengths)
    net_input = {"src_tokens": pad_batch(sentences, dictionary, left)}
    return {"net_input": {**net_input, "src_lengths": torch.tensor(lengths)}}


def both(models, dictionary, batch, call=None, strategy=None, **options):
    """Each hypothesis that fairseq's generator finds, with the one that ours does, which also gets
    the numbers of the sentences in the data."""
    results = []
    numbered = {**batch, "id": 7 + torch.arange(len(batch["net_input"]["src_tokens"]))}
    for kind, sample in ((SequenceGenerator, batch), (ResMLPGenerator, numbered)):
        torch.manual_seed(3)
        search = strategy and strategy(dictionary)
        built = kind(models, dictionary, search_strategy=search, **options)
        results.append(built.generate(models, sample, **(call or {})))
    for theirs, ours in zip(*results, strict=True):
        yield from zip(theirs, ours, strict=True)


def assert_same(pairs):
    """Token for token, and scores within 1e-4; ours come without attention."""
    for a, b in pairs:
        assert a.keys() == b.keys() and b["attention"].numel() == 0
        assert all(a[key].dtype == b[key].dtype for key in a)
        assert a["tokens"].tolist() == b["tokens"].tolist()
        assert a["score"].shape == b["score"].shape == ()
        assert gap(b["score"], a["score"]) < 1e-4
        assert gap(b["positional_scores"], a["positional_scores"]) < 1e-4
        b["score"] /= 2  # a caller may: it is no tensor of the inference mode


@pytest.fixture(params=["cpu", "gpu"])
def way(request, monkeypatch):
    """Both ways to search: with as little work as possible, and in steps of few launches."""
    on_gpu = request.param == "gpu"
    monkeypatch.setattr(memory.BeamHistory, "on_gpu", on_gpu)
    monkeypatch.setattr(memory, "BUCKET", 4)  # the room doubles now and then
    monkeypatch.setattr(beam_search, "CHECK_EVERY", 2)
    monkeypatch.setattr(candidates, "CHUNK", 3000)  # two rows of many types
    if on_gpu:
        for module in (candidates, beam_search):
            monkeypatch.setattr(module, "is_eager_on_cpu", lambda x: False)
    return request.param


FEW, MANY = (50, 0.3), (1500, 0.15)  # types, which many are searched by block; size of weights


def assert_as_fairseq(search, types, **options):
    for vocabulary, std in types:
        model, dictionary = build_model(seed=3, vocabulary=vocabulary, std=std, **options)
        for lengths, left in BATCHES:
            batch = batch_of(dictionary, lengths, left=left)
            assert_same(both([model], dictionary, batch, **search))
            fold_(model)


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_finds_what_fairseqs_finds(name, way):
    assert_as_fairseq(SEARCHES[name], (FEW, MANY))


@pytest.mark.parametrize("size", [0, 2])
def test_prefixes_are_continued_as_by_fairseq(way, size):
    """Of several lengths, longer than some sentences, and perhaps without repeated n-grams."""
    model, dictionary = build_model(seed=3)
    batch = batch_of(dictionary, (10, 2, 5, 12, 1, 7))
    prefixes = torch.full((6, 7), dictionary.pad())
    for i, length in enumerate((2, 7, 1, 3, 4, 1)):
        prefixes[i, :length] = torch.arange(6 * i + 5, 6 * i + 5 + length)
    prefixes[1, 2] = dictionary.unk()
    for limit in (5, 14):
        options = dict(beam_size=4, max_len_b=limit, no_repeat_ngram_size=size, unk_penalty=3)
        pairs = list(both([model], dictionary, batch, call={"prefix_tokens": prefixes}, **options))
        assert_same(pairs)
        assert limit == 5 or len({len(ours["tokens"]) for _, ours in pairs}) > 3


def test_a_prefix_may_repeat_itself():
    """What is forced is not ruled out."""
    model, dictionary = build_model(vocabulary=20)
    prefixes = torch.tensor([[9, 9, 9, 9]] * 3)
    options = dict(beam_size=1, max_len_b=9, no_repeat_ngram_size=2)
    generator = ResMLPGenerator([model], dictionary, **options)
    found = generator.generate([model], batch_of(dictionary, (3, 8, 5)), prefix_tokens=prefixes)
    for (one,) in found:
        tokens = one["tokens"].tolist()
        pairs = list(zip(tokens, tokens[1:]))
        assert tokens[:4] == [9] * 4 and pairs.count((9, 9)) == 3
        assert len(pairs) == len(set(pairs)) + 2


@pytest.mark.parametrize("name", MODELS)
def test_every_model_translates_as_with_fairseqs_search(name, way):
    assert_as_fairseq(SEARCHES["max-len-a"], [FEW], **MODELS[name])


def test_many_positions():
    """A checkpoint may claim them: the table of sinusoids is as long as the text."""
    many = dict.fromkeys(("max_source_positions", "max_target_positions"), 1 << 50)
    options = {"token_mixing": "none", "token_positional_embeddings": True, **many}
    model, dictionary = build_model(seed=3, **options)
    batch, found = batch_of(dictionary, (12, 3)), []
    for kind in (ResMLPGenerator, SequenceGenerator):
        for stack in (model.encoder, model.decoder):
            stack.embed_positions.weights = stack.embed_positions.weights[:4]
        built = kind([model], dictionary, beam_size=2, max_len_b=40, min_len=30)
        found += [one for hypotheses in built.generate([model], batch) for one in hypotheses]
    assert_same(zip(found[4:], found[:4], strict=True))


TOKEN, POISON = 7, {"nan": float("nan"), "infinite": float("inf"), "overflow": 1e38}


@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("ids", [None, [40, 41, 42]], ids=["batch", "ids"])
def test_sentences_with_scores_that_are_not_finite_are_named(poison, ids):
    model, dictionary = build_model(randomize=poison != "overflow")
    with torch.no_grad():
        model.encoder.embed_tokens.weight[TOKEN] = POISON[poison]
    batch = batch_of(dictionary, BATCHES[0][0])
    tokens = batch["net_input"]["src_tokens"]
    tokens[tokens == TOKEN] = TOKEN + 1
    if ids is not None:
        batch["id"] = torch.tensor(ids)
    generator = ResMLPGenerator([model], dictionary, beam_size=3, max_len_b=6)
    assert all(len(some) == 3 for some in generator.generate([model], batch))
    tokens[2, -2], tokens[0, -3] = TOKEN, TOKEN
    numbers = "0, 2" if ids is None else "40, 42"
    message = rf"^sentences \[{numbers}\]: .* NaN or infinite.*--fp16"
    with pytest.raises(NotFinite, match=message):
        generator.generate([model], batch)


@pytest.mark.parametrize("step, named", [(0, [0]), (1, [0]), (2, [])])
def test_scores_after_the_last_end_do_not_count(step, named):
    """Each step ends one of two hypotheses: the sentence is finished at step 1, which counts."""
    found = Hypotheses(1, 2, 3, 10, 2, 2, torch.device("cpu"))
    for now, rows in enumerate((1, 2, 2)):
        normalizers = torch.full((rows, 1), float("nan") if now == step else 0.0)
        found.add(normalizers, torch.tensor([[2, 5, 6, 7]]), -torch.arange(4.0)[None])
    assert found.unfinished() == [] and found.fetch().not_finite() == named


LEFT_TO_FAIRSEQ = {
    "suppressed tokens": dict(tokens_to_suppress=("w1", "w2", "w3")),
    "length of the source": dict(match_source_len=True),
    "sampling": dict(strategy=lambda types: fairseq_search.Sampling(types, sampling_topk=8)),
    "diverse": dict(strategy=lambda types: fairseq_search.DiverseBeamSearch(types, 2, 0.5)),
    "whole translations": dict(call={"prefix_tokens": torch.tensor([[10, 2], [12, 2], [14, 2]])}),
    "constraints": dict(
        call={"constraints": pack_constraints([[torch.tensor([20])], [torch.tensor([21])], []])},
        strategy=lambda types: fairseq_search.LexicallyConstrainedBeamSearch(types, "ordered"),
    ),
    "an ensemble": dict(seeds=(0, 1)),
    "temperature": dict(temperature=1.3),
    "few tokens for the beam": dict(model={"vocabulary": 13}, beam_size=6),
}


def test_allowed_tokens_are_asked_for_by_the_numbers_of_the_data():
    model, dictionary = build_model(vocabulary=30)
    seen = set()
    strategy = fairseq_search.PrefixConstrainedBeamSearch(
        dictionary, lambda number, tokens: seen.add(int(number)) or [4, 5, 2]
    )
    generator = ResMLPGenerator([model], dictionary, max_len_b=5, search_strategy=strategy)
    batch = batch_of(dictionary, (12, 3, 7)) | {"id": torch.tensor([42, 40, 41])}
    generator.generate([model], batch)
    assert seen == {40, 41, 42}


@pytest.mark.parametrize("how", ["class", "hook", "forward"])
def test_a_changed_output_is_what_scores(how):
    model, dictionary = build_model(vocabulary=30)
    change(model.decoder.output_projection, how, torch.neg)
    assert_same(both([model], dictionary, batch_of(dictionary, (12, 3, 7)), max_len_b=20))


@pytest.mark.parametrize("name", LEFT_TO_FAIRSEQ)
def test_other_searches_are_fairseqs(name, monkeypatch):
    """The same to the last bit, and with attention: it was fairseq's search. With a memory it finds
    what it finds without it, though sentences end one by one."""
    options = {"beam_size": 4, "max_len_b": 20, **LEFT_TO_FAIRSEQ[name]}
    seeds, model = options.pop("seeds", (0,)), {"vocabulary": 30, **options.pop("model", {})}
    models, (dictionary, *_) = zip(*(build_model(seed=seed, **model) for seed in seeds))
    given = [list(models), dictionary, batch_of(dictionary, (12, 3, 7))]
    rows, reorder = [], DecodingMemory.reorder

    def watched(self, new_order):
        rows.append(len(new_order))
        reorder(self, new_order)

    monkeypatch.setattr(DecodingMemory, "reorder", watched)
    stepwise = list(both(*given, **options))
    for a, b in stepwise:
        assert a.keys() == b.keys() and b["attention"].numel()
        assert all(torch.equal(a[key], b[key]) for key in a)
    assert name == "whole translations" or min(rows) < max(rows)
    rows.clear()
    ensemble = "fairseq.sequence_generator.EnsembleModel"
    monkeypatch.setattr(f"{ensemble}.has_incremental_states", lambda self: False)
    for (_, a), (_, b) in zip(stepwise, both(*given, **options), strict=True):
        assert a["tokens"].tolist() == b["tokens"].tolist()
        assert gap(a["positional_scores"], b["positional_scores"]) < 1e-4
    assert not rows


def test_tasks_build_our_generator_for_one_model_of_ours():
    model, dictionary = build_model()
    task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    options = Namespace(beam=3, max_len_a=1.5, max_len_b=7, lenpen=0.8, unkpen=0.5, min_len=2)
    built = task.build_generator([model], options)
    assert (built.max_len_a, built.max_len_b, built.min_len) == (1.5, 7, 2)
    assert (built.beam_size, built.len_penalty, built.unk_penalty) == (3, 0.8, 0.5)
    args = Namespace(arch="transformer", **SMALL)
    transformer_defaults(args)
    other = TransformerModel.build_model(args, task)
    own, _ = build_model()
    own.__class__ = type("Own", (ResMLPModel,), {})  # it may score otherwise
    others = [other], [own], [model, model], [model, other]
    alignment = Namespace(beam=3, print_alignment="hard")
    for kind, models, *how in (
        (ResMLPGenerator, [model], options),
        *((SequenceGenerator, some, options) for some in others),
        (SequenceGeneratorWithAlignment, [model], alignment),
        (SequenceGeneratorWithAlignment, [model], options, SequenceGeneratorWithAlignment),
        (SequenceScorer, [model], Namespace(score_reference=True)),
    ):
        assert type(task.build_generator(models, *how)) is kind

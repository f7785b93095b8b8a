"""Bugs of fairseq that change results: dropped sentences, n-gram blocking, tokenization."""

import math
from pathlib import Path

from fairseq.data import ConcatDataset, data_utils
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import DiverseBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.fairseq_task import StatefulContainer
from fairseq_cli import generate as fairseq_generate
from omegaconf import OmegaConf

from resmlp_mt.patching import replace
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.pieces import one_line, plain_pieces, without_bytes


@replace(data_utils, "batch_by_size")
def batch_by_size(original, indices, *args, **kwargs):
    """The last batch stays, also if its size is no multiple of 8.

    fairseq-fixed 0.12.3.1 drops it by ``--required-batch-size-multiple``: up to 7 sentences of a
    test set are not translated. It can go when the original passes
    ``test_every_sentence_is_in_a_batch_once``."""
    try:
        batches = original(indices, *args, **kwargs) if len(indices) else []
    except AssertionError as error:  # "Sentences lengths should not exceed max_tokens=20"
        raise UserError(f"{error}: raise --max-tokens (or --max-tokens-valid)") from None
    batched = sum(len(batch) for batch in batches)
    # the batches are consecutive pieces of indices
    return batches if batched == len(indices) else [*batches, indices[batched:]]


@replace(ConcatDataset, "__init__")
def init_concatenation(original, self, datasets, sample_ratios=1):
    """Data in several parts, train and train1 or valid and valid1, are read as they are.

    fairseq repeats the first -1 times, the default of ``--upsample-primary``: "negative dimensions
    are not allowed". It can go when the original passes ``test_data_in_several_parts``."""
    if isinstance(sample_ratios, list):
        sample_ratios = [1 if ratio == -1 else ratio for ratio in sample_ratios]
    original(self, datasets, sample_ratios)


@replace(data_utils, "_find_extra_valid_paths")
def find_extra_valid_paths(original, dataset_path: str) -> set[str]:
    """``--valid-subset valid,valid1`` names subsets.

    fairseq compares it with names of files, such as valid1.de-en.de, and says that they are
    ignored. It can go when the original passes ``test_data_in_several_parts``."""
    return {name.split(".")[0] for name in original(dataset_path)}


@replace(SequenceGenerator, "_generate")
def generate(original, self, sample, *args, **kwargs):
    """``--diverse-beam-groups`` works in fairseq-generate and with several batches in the hub.

    fairseq takes the numbers of the sentences in the data for those in the batch: an IndexError. It
    can go when the original passes ``test_other_searches_are_fairseqs``."""
    if isinstance(self.search, DiverseBeamSearch):
        sample = {name: value for name, value in sample.items() if name != "id"}
    return original(self, sample, *args, **kwargs)


@replace(fairseq_generate, "_main")
def generate_shard(original, cfg, output):
    """``fairseq-generate --num-shards N --shard-id I`` translates one of N parts.

    fairseq translates all of the text in each of them. It can go when the original passes
    ``test_shards_are_parts_of_the_text``."""
    shards = cfg.dataset.num_shards, cfg.dataset.shard_id
    if shards[0] > 1:
        training = cfg.distributed_training  # where fairseq looks for them
        training.distributed_world_size, training.distributed_rank = shards
    return original(cfg, output)


@replace(NGramRepeatBlock, "forward")
def block_ngrams(original, self, tokens, lprobs, bsz, beam_size, step):
    """``--no-repeat-ngram-size`` blocks n-grams on a CPU, too.

    fairseq 0.12 takes the last tokens of a hypothesis from the padding at the end of its buffer,
    and blocks nothing of size 1. It can go when the original passes
    ``test_repeated_ngrams_are_blocked_on_a_cpu``."""
    if self.no_repeat_ngram_size == 1:
        return lprobs.scatter_(1, tokens[:, 1 : step + 1], -math.inf)
    if self.use_extension:
        return original(self, tokens, lprobs, bsz, beam_size, step)
    return original(self, tokens[:, : step + 1], lprobs, bsz, beam_size, step)


@replace(StatefulContainer, "__getattr__")
def state_of_a_task(original, self, name):
    """``copy.deepcopy`` of a task, and so of the hub, ends.

    fairseq looks for ``_state`` in ``_state``, a RecursionError where it is not set yet. It can go
    when the original passes ``test_hub_interface``."""
    if name == "_state":
        raise AttributeError(name)
    return original(self, name)


@replace(data_utils, "post_process")
def post_process(original, sentence: str, symbol):
    """``--remove-bpe sentencepiece`` joins tokens that spell bytes.

    It can go when the original passes ``test_characters_that_are_spelled_in_bytes``."""
    return original(without_bytes(sentence) if symbol == "sentencepiece" else sentence, symbol)


@replace(SentencepieceBPE, "decode")
def decode_pieces(original, self, pieces: str) -> str:
    """The hub joins tokens that spell bytes. It goes with ``post_process``.

    ``test_characters_that_are_spelled_in_bytes`` has it, too."""
    return data_utils.post_process(pieces, "sentencepiece")


@replace(SentencepieceBPE, "__init__")
def init_sentencepiece(original, self, cfg):
    """fairseq-interactive and the hub read how the text of the data was made.

    This and the next can go when fairseq takes the encoding of a line from the data
    (``test_text_is_made_as_it_was_prepared``)."""
    if OmegaConf.is_config(cfg) and OmegaConf.is_missing(cfg, "sentencepiece_model"):
        raise UserError("--bpe sentencepiece: give --sentencepiece-model, the data's spm.model")
    from resmlp_mt.text import TextSettings

    original(self, cfg)
    model = Path(cfg.sentencepiece_model)
    self.text_settings = TextSettings.load(model.parent, model)


@replace(SentencepieceBPE, "encode")
def encode_pieces(original, self, line: str) -> str:
    """fairseq-interactive and the hub split a line as ``prepare`` does.

    Without this they let "</s>" through, a piece that ends the sentence
    (``test_text_is_made_as_it_was_prepared``)."""
    settings = self.text_settings
    line = one_line(line) if settings is None else settings.subwords.plain(line)
    return " ".join(plain_pieces(original(self, line).split(" ")))

"""What is mended in fairseq's beam search, and our own in its place."""

from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import DiverseBeamSearch
from fairseq.tasks import FairseqTask

from resmlp_mt.compat.replacing import replace_once
from resmlp_mt.inference.generator import ResMLPGenerator
from resmlp_mt.models.model import ResMLPModel


def diverse_beams_by_row() -> None:
    """Have diverse beam search work on more than one batch.

    fairseq 0.12 keeps its groups' overlaps by row of the batch, but looks them up by the sentence's
    number in the data set: from the second batch on that is out of range, or another sentence's.
    """

    @replace_once(DiverseBeamSearch, "step")
    def by_row(
        step, self, number, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None
    ):
        if original_batch_idxs is not None:
            if number == 0:
                self.first_batch_idxs = original_batch_idxs
            same = original_batch_idxs.unsqueeze(1) == self.first_batch_idxs
            original_batch_idxs = same.int().argmax(dim=1)
        return step(self, number, lprobs, scores, prev_output_tokens, original_batch_idxs)


def block_repeated_ngrams() -> None:
    """Have ``--no-repeat-ngram-size`` work on a CPU.

    There fairseq 0.12 takes a hypothesis's last words from the end of its whole buffer, which is
    padding until the last steps, and so finds nothing repeated.
    """

    @replace_once(NGramRepeatBlock, "forward")
    def on_words_so_far(forward, self, tokens, lprobs, bsz, beam_size, step):
        if not self.use_extension:
            tokens = tokens[:, : step + 1]
        return forward(self, tokens, lprobs, bsz, beam_size, step)


def search_with_own_generator() -> None:
    """Have fairseq's tasks build a :class:`ResMLPGenerator` where it can do what is asked for."""

    @replace_once(FairseqTask, "build_generator")
    def building(build_generator, self, models, args, seq_gen_cls=None, *others, **kwargs):
        # alignments need attention weights, which fairseq's generator for them collects
        with_alignment = getattr(args, "print_alignment", False)
        ours = len(models) == 1 and isinstance(models[0], ResMLPModel)
        if seq_gen_cls is None and ours and not with_alignment:
            seq_gen_cls = ResMLPGenerator
        return build_generator(self, models, args, seq_gen_cls, *others, **kwargs)

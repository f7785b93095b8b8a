"""Beam search for one ResMLP: fairseq's SequenceGenerator with fewer passes over memory.

At each step fairseq's generator copies the encoder's output and every hypothesis, and passes over
the scores of the whole vocabulary some eight times. This one stores tokens and the parent of each
hypothesis, and puts the hypotheses together at the end. How much faster: docs/results-details.md.
"""

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from resmlp_mt.cpu import is_eager_on_cpu
from resmlp_mt.model.inference import FEW, is_changed, product
from resmlp_mt.model.memory import DecodingMemory
from resmlp_mt.model.model import ResMLPModel
from resmlp_mt.patching import replace
from resmlp_mt.search.candidates import best_continuations, log_normalizer
from resmlp_mt.search.hypotheses import Hypotheses
from resmlp_mt_runtime.errors import UserError

# on a GPU, check for finished sentences every 8 steps: each check waits for the GPU
CHECK_EVERY = 8


class NotFinite(UserError):
    """Sentences without a translation; their *numbers* are those in the data or in the batch."""

    def __init__(self, numbers: list[int]):
        wrong = f"sentences {numbers}: no translation, because scores are NaN or infinite"
        super().__init__(f"{wrong}: translate without --fp16, or with another checkpoint")


class ResMLPGenerator(SequenceGenerator):
    """fairseq's generator, with our search for plain beam search by one model: R = B K rows, K
    hypotheses for each of B sentences, over V types. Sampling, constraints, a temperature,
    ensembles and the like are left to fairseq's. Results are on the CPU. ``attention`` is empty:
    ``--print-alignment``, which reads it, has another generator.
    """

    def _generate(
        self,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ):
        has_end = prefix_tokens is not None and bool(prefix_tokens.eq(self.eos).any())
        if has_end or constraints is not None or not self._is_plain_beam_search():
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        first_token = self.eos if bos_token is None else bos_token
        with torch.inference_mode():
            found = self._beam_search(sample["net_input"], first_token, prefix_tokens)
        result = found.fetch()  # not in inference mode: the caller may change it
        if overflowed := result.not_finite():
            numbers = sample["id"].tolist() if "id" in sample else range(len(result.counts))
            raise NotFinite([numbers[n] for n in overflowed])
        return result.hypotheses(self.len_penalty if self.normalize_scores else None)

    def _is_plain_beam_search(self) -> bool:
        return (
            self.model.models_size == 1
            and type(self.search) is BeamSearch
            and self.lm_model is None
            and self.token_indices_to_suppress is None
            and not self.match_source_len
            and self.temperature == 1.0
            and self.vocab_size > 2 * self.beam_size + 1
        )

    def _beam_search(
        self, net_input: dict[str, Tensor], first_token: int, prefixes: Tensor | None
    ) -> Hypotheses:
        """The hypotheses of B sentences, which begin with the *prefixes*, B x T, padded on the
        right. The host waits for a GPU every few steps only."""
        src_tokens = net_input["src_tokens"]
        sentences, source_length = src_tokens.shape
        max_len = min(int(self.max_len_a * source_length + self.max_len_b), self.max_len - 1)
        if self.min_len > max_len:
            wrong = f"--min-len {self.min_len}: a hypothesis has at most {max_len} tokens here"
            raise UserError(f"{wrong}: lower it, or raise --max-len-b")
        model, beam, device = self.model.single_model, self.beam_size, src_tokens.device
        encoder_out = model.encoder.forward_torchscript(net_input)
        memory = DecodingMemory()
        blocker = self.repeat_ngram_blocker
        shape = sentences, beam, max_len + 1, self.vocab_size
        hypotheses = Hypotheses(*shape, first_token, self.eos, device, blocker is not None)
        most_rows = sentences * beam if device.type == "cpu" else 0
        buffer = torch.empty(most_rows, self.vocab_size, dtype=torch.float32)
        for step in range(max_len + 1):
            # (1) score every next token of each hypothesis: R x V
            features = model.decoder.newest_features(hypotheses.tokens, encoder_out, memory)
            logits = self._logits(model.decoder.output_projection, features, buffer)
            normalizers = log_normalizer(logits)
            if self.unk_penalty:
                logits[:, self.unk] -= self.unk_penalty
            logits[:, self.pad].fill_(-torch.inf)
            forced = None
            if prefixes is not None and step < min(prefixes.size(1), max_len):
                each = len(logits) // len(hypotheses.active)  # rows of a sentence
                forced = prefixes[hypotheses.active, step].repeat_interleave(each).unsqueeze(1)
                scores_of_forced = logits.gather(1, forced)
            if step == max_len:
                logits[:, : self.eos].fill_(-torch.inf)
                logits[:, self.eos + 1 :].fill_(-torch.inf)
            if step < self.min_len:
                logits[:, self.eos].fill_(-torch.inf)
            if blocker is not None:
                rule_out_repeated(hypotheses.past, blocker.no_repeat_ngram_size, logits)
            if forced is not None:
                logits.masked_fill_(forced.ne(self.pad), -torch.inf)
                logits.scatter_(1, forced, scores_of_forced)  # of a free row, that of padding: -inf
            # (2) take the best continuations of each sentence: B x 2 K
            scores, candidates = best_continuations(
                logits, hypotheses.scores - normalizers, len(hypotheses.active), 2 * beam
            )
            # (3) those that are EOS are finished, the best K others continue
            parents = hypotheses.add(normalizers, candidates, scores)
            memory.follow(parents, None, beam)
            # (4) end, or drop finished sentences
            on_gpu = memory.history.on_gpu
            if step < self.min_len or (on_gpu and step % CHECK_EVERY):
                continue
            active = hypotheses.unfinished()
            if not active:
                break
            # fewer rows are less work for a CPU; on a GPU copying pays once half are finished
            before = len(hypotheses.active)
            if len(active) <= (before // 2 if on_gpu else before - 1):
                kept = torch.tensor(active, device=device)
                memory.follow(hypotheses.keep(kept), kept, beam)
        return hypotheses

    def _logits(self, layer: nn.Module, features: Tensor, buffer: Tensor) -> Tensor:
        """R x C to R x V scores in float32; on a CPU in *buffer*, the same memory at each step,
        because getting new memory takes a quarter of the time of the product."""
        is_plain = (
            is_eager_on_cpu(features)
            and type(layer) is nn.Linear  # a subclass, such as LoRA's, may compute something else
            and not is_changed(layer)
            and features.dtype == layer.weight.dtype == torch.float32
            and not torch.is_autocast_enabled("cpu")
        )
        if not is_plain:
            return layer(features).float()
        if len(features) <= FEW:
            return product(features, layer.weight, layer.bias)
        out = buffer[: len(features)]
        return torch.ops.aten.linear.out(features, layer.weight, layer.bias, out=out)


def rule_out_repeated(tokens: Tensor, size: int, logits: Tensor) -> None:
    """Lower the scores, R x V, of tokens that would repeat *size* of the *tokens*, R x T."""
    step = tokens.size(1)
    if step < size:
        return
    windows = tokens.unfold(1, size, 1)  # R x (T - size + 1) x size
    repeated = windows[:, :, :-1].eq(tokens[:, step - size + 1 :].unsqueeze(1)).all(2)
    highest = torch.where(repeated, -torch.inf, torch.inf).to(logits.dtype)
    logits.scatter_reduce_(1, windows[:, :, -1], highest, "amin")


@replace(FairseqTask, "build_generator")
def build_generator(original, self, models, args, seq_gen_cls=None, *others, **kwargs):
    """Our models are searched by our own generator.

    fairseq's SequenceGenerator finds the same translations, slower. It can go when a model can name
    the generator that suits it (``test_tasks_build_our_generator_for_one_model_of_ours``)."""
    # a subclass may score otherwise, in methods that our search does not call
    ours = len(models) == 1 and type(models[0]) is ResMLPModel
    # fairseq has a generator that collects the attention weights for alignments
    if seq_gen_cls is None and ours and not getattr(args, "print_alignment", False):
        seq_gen_cls = ResMLPGenerator
    return original(self, models, args, seq_gen_cls, *others, **kwargs)

"""Beam search for one ResMLP: what fairseq's SequenceGenerator finds, in fewer passes over memory.

fairseq's generator copies the encoder's output and every hypothesis at each step and goes through
the scores of the whole vocabulary some eight times. For plain beam search by one model this one
keeps words and back pointers, and reads off a hypothesis when it is finished. Everything else
(sampling, constraints, prefixes, n-gram blocking, ensembles ...) is left to fairseq's.
"""

import textwrap
from typing import Dict, List, Optional

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from resmlp_mt.decoding.candidates import (
    CHUNK,
    best_continuations,
    in_chunks,
    log_normalizer,
)
from resmlp_mt.decoding.decoding_memory import DecodingMemory
from resmlp_mt.decoding.hypotheses import Fetched, Hypotheses, best_going_on
from resmlp_mt.decoding.packing import PackedLinear
from resmlp_mt.errors import UserError

# on a GPU, steps between two questions which sentences are done: each is a wait
ASK_EVERY = 8


class NotFinite(UserError):
    """Sentences without a translation.

    Args:
        sentences: their numbers in the data, or in a batch that does not say them.
        names: what to call each of them.
    """

    def __init__(self, sentences: List[int], names: List[str]):
        super().__init__(
            f"sentence{'s' if len(names) > 1 else ''} {', '.join(names)}: the scores of the words "
            "are NaN or infinite, so that there is no translation: the model overflowed "
            "(translate without --fp16) or its weights are not finite (use another checkpoint)"
        )
        self.sentences, self.names = sentences, names

    def __reduce__(self):  # a worker hands it to its parent
        return type(self), (self.sentences, self.names)


class ResMLPGenerator(SequenceGenerator):
    """fairseq's generator, with a beam search of its own for the plain case.

    The constructor and the results are fairseq's. In the plain case ``attention`` is empty: weights
    of attention are for ``--print-alignment``, which has a generator of its own.

    Attributes:
        constant_shape: search with steps that are all alike (see :class:`BeamHistory`). None: on
            all devices but the CPU.
    """

    constant_shape: Optional[bool] = None

    def _generate(
        self,
        sample: Dict[str, Dict[str, Tensor]],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ):
        """
        Raises:
            NotFinite: naming the sentences for which the model's scores are NaN or infinite.
        """
        if prefix_tokens is not None or constraints is not None or not self._is_plain():
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        first_word = self.eos if bos_token is None else bos_token
        self._logits_memory: Optional[Tensor] = None
        with torch.inference_mode():
            found = self._beam_search(sample["net_input"], first_word)
        self._logits_memory = None
        lost = found.not_finite()
        if lost:
            sentences = sample["id"][lost].tolist() if "id" in sample else lost
            raise NotFinite(sentences, [self._name(sample, number) for number in lost])
        return found.results(self.len_penalty if self.normalize_scores else None)

    def _name(self, sample: dict, number: int) -> str:
        """The number of a sentence in the data, where the batch has it, and its first words."""
        tokens = sample["net_input"]["src_tokens"][number]
        words = self.model.single_model.encoder.dictionary.string(tokens[tokens != self.pad])
        where = int(sample["id"][number]) if "id" in sample else f"{number} of the batch"
        return f"{where} ({textwrap.shorten(words, 60)})"

    def _is_plain(self) -> bool:
        return (
            self.model.models_size == 1
            and type(self.search) is BeamSearch
            and self.repeat_ngram_blocker is None
            and self.lm_model is None
            and self.token_indices_to_suppress is None
            and not self.match_source_len
            and self.vocab_size > 2 * self.beam_size + 1
            and self.model.single_model.decoder.adaptive_softmax is None
        )

    def _beam_search(self, net_input: Dict[str, Tensor], first_word: int) -> Fetched:
        """What is found for B sentences.

        A step is :meth:`_step`, work on tensors alone. The host begins it, asks now and then which
        sentences are done, and drops these.
        """
        src_tokens = net_input["src_tokens"]
        device, (sentences, source_length) = src_tokens.device, src_tokens.shape
        max_len = min(int(self.max_len_a * source_length + self.max_len_b), self.max_len - 1)
        if self.min_len > max_len:
            raise UserError(
                f"--min-len {self.min_len}: a hypothesis has at most {max_len} words here: lower "
                "it, or raise --max-len-b"
            )
        model, beam = self.model.single_model, self.beam_size
        encoder_out = model.encoder.forward_torchscript(net_input)
        state: dict = {}
        memory = DecodingMemory.of(state)
        # other shapes are other graphs
        memory.history.constant = True if model.decoder.compiled else self.constant_shape
        memory.need_attention = False
        found = Hypotheses(
            sentences, beam, max_len + 1, self.vocab_size, first_word, self.eos, device
        )
        for step in range(max_len + 1):
            memory.begin(found.words, step + 1, model.decoder.max_target_positions, encoder_out)
            self._step(model.decoder, state, found, step >= self.min_len, step == max_len)
            # a CPU answers at once, and fewer rows are less work for it; a GPU has to be waited
            # for, and other shapes are other graphs
            constant = memory.history.constant
            if step < self.min_len or (constant and step % ASK_EVERY):
                continue
            left = [n for n, done in enumerate(found.done(step + 1)) if not done]
            if not left:
                break
            if len(left) <= len(found.left) / 2 if constant else len(left) < len(found.left):
                left = torch.tensor(left, device=device)
                memory.go_on(found.keep(left), left, beam)
        return found.fetch(step + 1)

    def _step(self, decoder, state: dict, found: Hypotheses, may_end: bool, is_last: bool) -> None:
        """The next word of every row.

        Args:
            decoder: our decoder.
            state: where its memory is, begun for this word.
            found: what is found so far, begun for this word; changed.
            may_end: whether a hypothesis may end with this word.
            is_last: whether every hypothesis has to.
        """
        memory, beam = DecodingMemory.of(state), self.beam_size
        step = memory.history.position
        features = decoder.newest_features(found.words, state)
        logits = self._logits(decoder, features)
        normalizer = log_normalizer(logits)
        found.add_normalizers(step, normalizer)
        if is_last:
            logits[:, : self.eos].fill_(-torch.inf)
            logits[:, self.eos + 1 :].fill_(-torch.inf)
        logits[:, self.pad].fill_(-torch.inf)
        if self.unk_penalty:
            logits[:, self.unk] -= self.unk_penalty
        if not may_end:
            logits[:, self.eos].fill_(-torch.inf)
        best, candidates = best_continuations(
            logits, found.scores - normalizer, found.first_candidates, 2 * beam
        )
        found.add(step, candidates, best)
        if may_end:
            going_on = best_going_on(found.end(step, candidates, best), beam)
            best, candidates = best.gather(1, going_on), candidates.gather(1, going_on)
        else:
            best, candidates = best[:, :beam], candidates[:, :beam]
        if not is_last:
            memory.go_on(found.go_on(candidates, best), None, beam)

    def _logits(self, decoder, features: Tensor) -> Tensor:
        """R x C to R x V scores in float32.

        On a CPU they are in the same memory at each step. Tens of megabytes that are new at each
        step are handed out by the operating system page by page, which takes as long as a quarter
        of the product.
        """
        layer, rows = decoder.output_projection, features.size(0)
        if not in_chunks(features):
            logits = layer(features).float()
            return logits if self.temperature == 1.0 else logits / self.temperature
        buffer = self._logits_memory
        if buffer is None or len(buffer) < rows:
            # the first word has one row a sentence, all others as many as there are beams
            buffer = features.new_empty(rows, self.vocab_size, dtype=torch.float32)
            self._logits_memory = buffer
        out = buffer[:rows]
        if (
            isinstance(layer, nn.Linear)
            and not (isinstance(layer, PackedLinear) and layer.reads_packed(features))
            and features.dtype == layer.weight.dtype == torch.float32
            and not torch.is_autocast_enabled(features.device.type)
        ):
            weight = layer.weight.t()
            if layer.bias is None:
                torch.mm(features, weight, out=out)
            else:
                torch.addmm(layer.bias, features, weight, out=out)
        else:
            chunk = max(1, CHUNK * 4 // out.size(1))
            for some, target in zip(features.split(chunk), out.split(chunk), strict=True):
                target.copy_(layer(some))
        return out if self.temperature == 1.0 else out.div_(self.temperature)

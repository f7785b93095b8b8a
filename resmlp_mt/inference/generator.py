"""Beam search for one ResMLP: what fairseq's SequenceGenerator finds, in fewer passes over memory.

fairseq's generator copies the encoder's output and every hypothesis at each step and goes through
the scores of the whole vocabulary some eight times. For plain beam search by one model this one
keeps words and back pointers, and reads off a hypothesis when it is finished. Everything else
(sampling, constraints, prefixes, n-gram blocking, ensembles ...) is left to fairseq's.
"""

import textwrap
from typing import Dict, List, Optional, Tuple

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from resmlp_mt.errors import UserError
from resmlp_mt.inference.beam_trace import Finished, Trace
from resmlp_mt.inference.candidates import CHUNK, log_normalizer, top_words
from resmlp_mt.modules.decoding_memory import DecodingMemory


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
        self.sentences = sentences


class ResMLPGenerator(SequenceGenerator):
    """fairseq's generator, with a beam search of its own for the plain case.

    The constructor and the results are fairseq's; ``attention`` is empty, as attention weights are
    computed for ``--print-alignment`` only, which has a generator of its own.
    """

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
        found, lost = self._beam_search(sample["net_input"], first_word)
        if lost:
            sentences = sample["id"][lost].tolist() if "id" in sample else lost
            raise NotFinite(sentences, [self._name(sample, number) for number in lost])
        return found

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

    def _beam_search(self, net_input: Dict[str, Tensor], first_word: int):
        """The hypotheses of B sentences, and the numbers of those whose scores were not finite.

        R rows are the hypotheses of the sentences still translated, grouped by sentence.
        """
        src_tokens = net_input["src_tokens"]
        device, (sentences, source_length) = src_tokens.device, src_tokens.shape
        max_len = min(int(self.max_len_a * source_length + self.max_len_b), self.max_len - 1)
        assert self.min_len <= max_len, (
            "min_len cannot be larger than max_len, please adjust these!"
        )
        model, beam = self.model.single_model, self.beam_size
        encoder_out = model.encoder.forward_torchscript(net_input)
        state: dict = {}
        memory = DecodingMemory.of(state)
        memory.need_attention = False
        finished: List[List[Finished]] = [[] for _ in range(sentences)]
        left = list(range(sentences))  # the sentences whose rows these are
        trace = Trace()
        normalizers: List[Tuple[List[int], Tensor]] = []  # of the sentences left at each step
        logits = None
        # all beams start alike: one row a sentence will do for the first word
        words = torch.full((sentences,), first_word, device=device)
        scores = torch.zeros(sentences, device=device)
        for step in range(max_len + 1):
            features = model.decoder.newest_features(words, step + 1, encoder_out, state)
            logits = self._logits(model.decoder, features, logits)
            normalizer = log_normalizer(logits)
            normalizers.append((left, normalizer))
            found, found_words, parents = self._candidates(
                logits, normalizer, scores, len(left), step, max_len
            )
            ends = found_words.eq(self.eos) & found.ne(-torch.inf)
            done = self._finish(step, max_len, ends, found, parents, left, finished)
            if len(done) == len(left):
                break
            # the best that do not end; a row ends at most once, so that enough are left
            order = torch.arange(ends.size(1), device=device) + ends * ends.size(1)
            active = order.topk(beam, dim=1, largest=False).indices
            if done:
                kept = [i for i in range(len(left)) if i not in done]
                left = [left[i] for i in kept]
                kept = torch.tensor(kept, device=device)
                active = active.index_select(0, kept)
                found, found_words, parents = (
                    x.index_select(0, kept) for x in (found, found_words, parents)
                )
            scores, words, rows = (
                x.gather(1, active).view(-1) for x in (found, found_words, parents)
            )
            memory.go_on(rows, kept if done else None, beam)
            trace.add(rows, words, scores)
        return self._results(finished, trace, device), _sentences_not_finite(normalizers)

    def _logits(self, decoder, features: Tensor, buffer: Optional[Tensor]) -> Tensor:
        """R x C to R x V scores in float32, in the same memory at each step.

        Tens of megabytes that are new at each step are handed out by the operating system page by
        page, which takes a CPU as long as a quarter of the product.
        """
        layer, rows = decoder.output_projection, features.size(0)
        if buffer is None or len(buffer) < rows:
            # the first word has one row a sentence, all others as many as there are beams
            buffer = features.new_empty(rows, self.vocab_size, dtype=torch.float32)
        out = buffer[:rows]
        if (
            type(layer) is nn.Linear
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

    def _candidates(
        self,
        logits: Tensor,
        normalizer: Tensor,
        scores: Tensor,
        sentences: int,
        step: int,
        max_len: int,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """The best 2 x beam continuations: score, word and row, B x 2 beam each."""
        logits[:, self.pad] = -torch.inf
        logits[:, self.unk] -= self.unk_penalty
        if step < self.min_len:
            logits[:, self.eos] = -torch.inf
        if step >= max_len:
            k, found = 1, logits[:, self.eos : self.eos + 1]
            words = torch.full_like(found, self.eos, dtype=torch.long)
        else:
            k = 2 * self.beam_size
            found, words = top_words(logits, k)
        found = (found + (scores - normalizer).unsqueeze(1)).view(sentences, -1)
        best, places = found.topk(min(2 * self.beam_size, found.size(1)), dim=1)
        words = words.reshape(sentences, -1).gather(1, places)
        first_rows = torch.arange(
            0, len(logits), len(logits) // sentences, device=logits.device
        ).unsqueeze(1)
        return best, words, places // k + first_rows

    def _finish(self, step, max_len, ends, found, parents, left, finished) -> set:
        """Record the hypotheses that end now; returns which of the sentences left are done."""
        done = set()
        ends = ends[:, : self.beam_size]
        # on a GPU each of these waits for it: the first one only, at most steps
        if bool(ends.any()):
            places = ends.nonzero()[:, 0].tolist()
            rows = parents[:, : self.beam_size][ends].tolist()
            scores = found[:, : self.beam_size][ends].tolist()
            for place, row, score in zip(places, rows, scores, strict=True):
                hypotheses = finished[left[place]]
                if len(hypotheses) < self.beam_size:
                    hypotheses.append(Finished(step, row, score))
                if len(hypotheses) == self.beam_size:
                    done.add(place)
        return set(range(len(left))) if step >= max_len else done

    def _results(self, finished, trace: Trace, device) -> List[List[Dict[str, Tensor]]]:
        flat = [hypothesis for some in finished for hypothesis in some]
        words, scores = trace.read(flat)
        words, scores = words.to(device), scores.to(device)
        results, number = [], 0
        for some in finished:
            hypotheses = []
            for hypothesis in some:
                length = hypothesis.step
                ended = scores.new_tensor([hypothesis.score])
                cumulative = torch.cat([scores[number, :length], ended])
                hypotheses.append(
                    {
                        "tokens": torch.cat([words[number, :length], words.new_tensor([self.eos])]),
                        "score": self._normalize(ended[0], length + 1),
                        "attention": torch.empty(0),
                        "alignment": torch.empty(0),
                        "positional_scores": cumulative.diff(prepend=cumulative.new_zeros(1)),
                    }
                )
                number += 1
            results.append(sorted(hypotheses, key=lambda h: -h["score"].item()))
        return results

    def _normalize(self, score: Tensor, length: int) -> Tensor:
        return score / length**self.len_penalty if self.normalize_scores else score


def _sentences_not_finite(normalizers: List[Tuple[List[int], Tensor]]) -> List[int]:
    """Numbers of the sentences with a row whose normalizer is NaN or infinite at any step: one NaN
    or infinity among the scores of a row makes it so."""
    # one transfer from a GPU, not one a step
    finite = torch.cat([of_rows for _, of_rows in normalizers]).isfinite().cpu()
    if bool(finite.all()):
        return []
    lost, steps = set(), finite.split([len(of_rows) for _, of_rows in normalizers])
    for (left, _), of_rows in zip(normalizers, steps, strict=True):
        of_sentences = of_rows.view(len(left), -1).all(dim=1).tolist()
        lost.update(number for number, fine in zip(left, of_sentences, strict=True) if not fine)
    return sorted(lost)

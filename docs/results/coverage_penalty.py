#!/usr/bin/env python3
"""An experiment: does a coverage penalty in the search make a model repeat itself less?

    python docs/results/coverage_penalty.py examples/mixed/model valid.newstest2013 --weights 0 0.8

The penalty is that of Wu et al. (2016) in the form of OpenNMT-py's "summary": each hypothesis loses
``weight * sum over source tokens of max(0, attention received so far - threshold)``, the attention
of the last layer, mean over its heads, at every step of the search. It went into no release, see
docs/results.md; this file makes its numbers again. TEXT.SOURCE and TEXT.TARGET are read.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean

import torch

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "scripts"))

import results
from sacrebleu.metrics import BLEU
from study import repeats, side

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.model.memory import DecodingMemory
from resmlp_mt.model_folder import chosen_lenpen
from resmlp_mt.pipeline.translate.options import SearchOptions
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.search.beam_search import ResMLPGenerator
from resmlp_mt.search.candidates import best_continuations, log_normalizer
from resmlp_mt.search.hypotheses import Hypotheses


class Penalized(ResMLPGenerator):
    """``ResMLPGenerator._beam_search`` on a CPU, with the penalty."""

    weight, threshold = 0.0, 1.5

    def _beam_search(self, net_input, first_token):
        source = net_input["src_tokens"]
        most = min(int(self.max_len_a * source.size(1) + self.max_len_b), self.max_len - 1)
        model, beam, state = self.model.single_model, self.beam_size, {}
        encoder_out = model.encoder.forward_torchscript(net_input)
        memory = DecodingMemory.of(state)
        sizes = len(source), beam, most + 1, self.vocab_size
        hypotheses = Hypotheses(*sizes, first_token, self.eos, source.device)
        buffer = torch.empty(len(source) * beam, self.vocab_size)
        coverage, penalty = torch.zeros(()), torch.zeros(())
        for step in range(most + 1):
            features, extra = model.decoder._features(hypotheses.tokens, encoder_out, memory)
            coverage = coverage + extra["attn"][0].view(len(features), -1)
            excess = (coverage - self.threshold).clamp(min=0).sum(1, keepdim=True)
            added, penalty = self.weight * excess - penalty, self.weight * excess
            logits = self._logits(model.decoder.output_projection, features, buffer)
            normalizers = log_normalizer(logits)
            self._rule_out(logits, may_end=step >= self.min_len, must_end=step == most)
            so_far = hypotheses.scores - normalizers - added
            best = best_continuations(logits, so_far, hypotheses.first_candidates, 2 * beam)
            parents = hypotheses.add(normalizers, best[1], best[0])
            memory.follow(parents, None, beam)
            coverage, penalty = coverage[parents], penalty[parents]
            active = [n for n, finished in enumerate(hypotheses.finished()) if not finished]
            if not active:
                break
            if len(active) < len(hypotheses.active):
                kept = torch.tensor(active)
                rows = hypotheses.keep(kept)
                memory.follow(rows, kept, beam)
                coverage, penalty = coverage[rows], penalty[rows]
        return hypotheses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.4, 0.8])
    parser.add_argument("--lines", type=int, default=400)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lenpen = chosen_lenpen(args.model)
    options = SearchOptions((args.model / "model.pt",), args.model, lenpen=lenpen, cpu=True)
    translator = Translator(options)
    translator.generator.__class__ = Penalized
    languages = translator.task.cfg.source_lang, translator.task.cfg.target_lang
    for text in args.text:
        source, references = (side(text, language)[: args.lines] for language in languages)
        pieces = [translator.pieces(line)[: translator.limit] for line in source]
        found = {}
        for translator.generator.weight in args.weights:
            lines = [""] * len(pieces)
            for batch in translator.translations(pieces):
                for number, nbest in batch.items():
                    lines[number] = nbest[0].text
            bleu = BLEU().corpus_score(lines, [references]).score
            shares = {"bleu": round(bleu, 2), "repeats": round(mean(map(repeats, lines)), 4)}
            found[f"{translator.generator.weight:g}"] = shares
            print(text.name, translator.generator.weight, shares, flush=True)
        name = f"repetition/{'-'.join(languages)}/{text.name}"
        results.append(name, {"lines": len(source), "weights": found}, 1)


if __name__ == "__main__":
    sys.exit(run_main(main))

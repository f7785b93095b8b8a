"""fairseq's beam search over the indices of tokens, and scores of given translations.

It uses a model through two functions: ``encode``, from sentences to a state, and ``step``, which
returns the log probabilities of the next token. engine.cpp finds the same hypotheses.
"""

from collections.abc import Sequence

import numpy as np

from resmlp_mt_runtime.folder import EOS, PAD

Sentences = Sequence[Sequence[int]]
Hypotheses = list[list[tuple[float, list[int]]]]  # of each sentence, the best first: score, tokens


@np.errstate(all="ignore")
def search(
    engine,
    sources: Sentences,
    beam: int,
    lenpen: float,
    limit: int,
    prefixes: Sentences,
    no_repeat_ngram: int,
) -> Hypotheses:
    """The hypotheses of each sentence, of at most *limit* tokens; none if its scores are not
    finite. *sources* end with EOS. A translation begins with its prefix, whatever is ruled out. If
    *no_repeat_ngram* is not 0, no sequence of that many tokens occurs twice. Tokens exclude EOS;
    scores are log probabilities, EOS counted, / length ** lenpen.
    """
    state = engine.encode(sources)
    finished: list[list] = [[] for _ in sources]
    # B active sentences with J hypotheses each: one at first, later *beam*
    active = np.arange(len(sources))
    tokens, totals = np.zeros((len(active), 1, 0), int), np.zeros((len(active), 1), np.float32)
    for step in range(limit + 1):
        # (1) score every next token of each hypothesis: B x J x V
        newest = tokens[:, :, -1] if step else np.full(totals.shape, EOS)
        scores = engine.step(newest, state)
        ends = scores[:, :, EOS].copy()  # one NaN or overflow makes all of a row's not finite
        failed = (~np.isfinite(ends) & np.isfinite(totals)).any(axis=1)
        for i, number in enumerate(active.tolist()):
            prefix = prefixes[number]
            if step == limit:
                _allow_only(scores[i], EOS)
            elif step < len(prefix):
                _allow_only(scores[i], prefix[step])
            elif no_repeat_ngram:
                _rule_out_repeated(scores[i], tokens[i].tolist(), no_repeat_ngram)
        scores[:, :, PAD] = -np.inf
        if step == 0:  # no translation is empty, as in fairseq (min_len 1)
            scores[:, :, EOS] = -np.inf
        # (2) take the best continuations of each sentence: B x 2 beam
        best, chosen, parents = _best(scores, totals, 2 * beam)
        # (3) those that are EOS are finished, the best others continue
        is_end = (chosen == EOS) & (best > -np.inf)
        length = np.float32((step + 1) ** lenpen)
        for i, rank in np.argwhere(is_end[:, :beam]):
            if not failed[i] and len(finished[active[i]]) < beam:
                hypothesis = tokens[i, parents[i, rank]].tolist()
                finished[active[i]].append((float(best[i, rank] / length), hypothesis))
        for number in active[failed]:
            finished[number] = []
        done = failed | [len(finished[number]) == beam for number in active]
        if step == limit or done.all():
            break
        # each row has one EOS among its candidates: at least *beam* others are left
        order = np.argsort(is_end, axis=1, kind="stable")[:, :beam]
        each, kept = np.arange(len(active))[:, None], np.flatnonzero(~done)
        totals, chosen, parents = (x[each, order][kept] for x in (best, chosen, parents))
        tokens = np.concatenate([tokens[kept[:, None], parents], chosen[:, :, None]], axis=2)
        active = active[kept]
        state.follow(kept, parents)
    return [sorted(hypotheses, key=lambda one: -one[0]) for hypotheses in finished]


@np.errstate(all="ignore")
def score(engine, sources: Sentences, targets: Sentences) -> list[list[float]]:
    """Log probabilities of each target's tokens and of the EOS after them. *sources* end in EOS."""
    state = engine.encode(sources)
    given, _ = table(targets, max(map(len, targets)) + 1)
    found, newest = [], np.full((len(targets), 1), EOS)
    for step in range(given.shape[1]):
        scores = engine.step(newest, state)[:, 0]
        newest = given[:, step : step + 1]
        found.append(np.take_along_axis(scores, newest, axis=1)[:, 0])
    return [row[: len(target) + 1].tolist() for row, target in zip(np.stack(found, 1), targets)]


def table(rows: Sentences, width: int) -> tuple[np.ndarray, np.ndarray]:
    """B x *width* tokens, with EOS after those of a row, and the length of each row."""
    tokens = np.full((len(rows), width), EOS, np.int32)
    for row, given in zip(tokens, rows):
        row[: len(given)] = given
    return tokens, np.array(list(map(len, rows)), np.int32)


def _allow_only(scores: np.ndarray, token: int) -> None:
    """Rule out all other tokens, in place; *scores* are J x V."""
    allowed = scores[:, token].copy()
    scores[:] = -np.inf
    scores[:, token] = allowed


def _rule_out_repeated(scores: np.ndarray, hypotheses: list[list[int]], size: int) -> None:
    """Rule out tokens that would repeat *size* tokens of their hypothesis, in place."""
    for row, tokens in zip(scores, hypotheses):
        begin = len(tokens) - size + 1
        for i in range(begin):
            if tokens[i : i + size - 1] == tokens[begin:]:
                row[tokens[i + size - 1]] = -np.inf


def _best(scores: np.ndarray, totals: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """Scores, tokens and parents of the best *count* continuations of each sentence, the best
    first; of equal ones the first row and, if there is room for all of them, token."""
    sentences, rows, tokens = scores.shape
    top = np.sort(np.argpartition(scores, tokens - count, axis=2)[:, :, tokens - count :], axis=2)
    best = np.take_along_axis(scores, top, axis=2)
    order = np.argsort(-best, axis=2, kind="stable")
    best, top = (np.take_along_axis(x, order, axis=2) for x in (best, top))
    best, top = (best + totals[:, :, None]).reshape(sentences, -1), top.reshape(sentences, -1)
    order = np.argsort(-best, axis=1, kind="stable")[:, :count]
    found = (np.take_along_axis(x, order, axis=1) for x in (best, top))
    return *found, order // count

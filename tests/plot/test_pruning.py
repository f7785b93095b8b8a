"""Weights below a share of their matrix's maximum: counted, and zeroed."""

import pytest
import torch
from command import refused, resmlp
from fairseq_programs import weights
from helpers import POSITIONS
from picture_inputs import save_model
from reference_scores import assert_scores_are

from resmlp_mt.plot.pruning import Count, prune_checkpoint, sparsity

MIXING = "{}.layers.{}.token_mixing.mixing.weight"
GATED_MIXING = MIXING.replace("weight", "toeplitz.weight")
FEED_FORWARD = "{}.layers.{}.feed_forward.fc{}.weight"


def by_hand(values, threshold):
    """Entry by entry: (small, total)."""
    values = [abs(value) for value in values]
    return Count(sum(value < threshold * max(values) for value in values), len(values))


@pytest.mark.parametrize("length", [6, 99])
@pytest.mark.parametrize("threshold", [0.05, 0.3])
def test_counts_of_the_papers_matrices(tmp_path, length, threshold):
    path = save_model(tmp_path / "a.pt", token_mixing_heads=2)
    model, counts = weights(path), sparsity(path, threshold, length).counts
    reach = min(length, POSITIONS)
    for side in ("encoder", "decoder"):
        for layer in (0, 1):
            total = Count(0, 0)
            for matrix in model[MIXING.format(side, layer)]:
                used = [
                    matrix[t, s].item()
                    for t in range(reach)
                    for s in range(t + 1 if side == "decoder" else reach)
                ]
                total += by_hand(used, threshold)
            assert counts["A"][side, layer] == total
            for kind, number in (("B", 1), ("C", 2)):
                matrix = model[FEED_FORWARD.format(side, layer, number)]
                assert counts[kind][side, layer] == by_hand(matrix.flatten().tolist(), threshold)


@pytest.mark.parametrize("kind, a", [("toeplitz", MIXING), ("gated", GATED_MIXING)])
def test_counts_of_weights_by_distance(tmp_path, kind, a):
    path = save_model(tmp_path / "a.pt", token_mixing=kind, token_mixing_heads=2)
    model, counts = weights(path), sparsity(path, 0.3, 6).counts
    for side, first in (("encoder", POSITIONS - 1 - 5), ("decoder", 0)):
        total = Count(0, 0)
        for head in model[a.format(side, 0)]:
            used = head[first : POSITIONS - 1 + 6 if side == "encoder" else 6]
            assert len(used) == (11 if side == "encoder" else 6)
            total += by_hand(used.tolist(), 0.3)
        assert counts["A"][side, 0] == total


def test_counts_of_taps(tmp_path):
    path = save_model(tmp_path / "a.pt", token_mixing="depthwise-conv")
    taps = weights(path)[MIXING.format("encoder", 0)]
    total = Count(0, 0)
    for channel in taps:
        total += by_hand(channel.tolist(), 0.3)
    assert sparsity(path, 0.3, 6).counts["A"]["encoder", 0] == total


def test_what_is_pruned_is_zero_and_nothing_else_changes(tmp_path):
    path = save_model(tmp_path / "a.pt", token_mixing_heads=2)
    before, counts = weights(path), sparsity(path, 0.2, 10).counts
    for which in ("A", "B", "C", None):
        out = tmp_path / "pruned.pt"
        chosen = None if which is None else [which]
        removed = prune_checkpoint(path, out, 0.2, chosen, 10)
        after = weights(out)
        assert set(before) == set(after)
        for name, old in before.items():
            kinds = {"mixing.weight": "A", "fc1.weight": "B", "fc2.weight": "C"}
            kind = next((k for end, k in kinds.items() if name.endswith(end)), None)
            if kind is None or which not in (None, kind):
                assert torch.equal(after[name], old)
                continue
            gone = after[name] == 0
            assert torch.equal(after[name], torch.where(gone, 0, old))
            assert gone.any() and not gone.all()
            # largest weight of the matrix, for A of the part that is used and of each head
            for matrix, pruned in zip(*(x if kind == "A" else [x] for x in (old, gone))):
                part = matrix[:10, :10] if kind == "A" else matrix
                part = part.tril() if name.startswith("decoder") and kind == "A" else part
                assert torch.equal(pruned, matrix.abs() < 0.2 * part.abs().max())
        for kind, by_layer in counts.items():
            total = sum(by_layer.values(), Count(0, 0))
            expected = total if which in (None, kind) else Count(0, total.total)
            assert removed[kind] == expected


def test_limits(tmp_path):
    path = save_model(tmp_path / "a.pt")
    prune_checkpoint(path, tmp_path / "same.pt", 0)
    assert all(torch.equal(x, weights(tmp_path / "same.pt")[n]) for n, x in weights(path).items())
    prune_checkpoint(path, tmp_path / "one.pt", 1, ["B"])
    fc1 = weights(tmp_path / "one.pt")[FEED_FORWARD.format("encoder", 0, 1)]
    assert fc1.count_nonzero() == 1


def test_command(tmp_path):
    path, out = save_model(tmp_path / "a.pt"), tmp_path / "out.pt"
    state = torch.load(path)
    torch.save({**state, "last_optimizer_state": {"big": torch.zeros(9)}}, path)
    words = ["--which", "A", "C", "--threshold", 0.1]
    status, printed, _ = resmlp("prune", path, "-o", out, *words)
    first, second, _, last = printed.splitlines()
    total = sum(sparsity(path, 0.1).counts["A"].values(), Count(0, 0))
    assert status == 0 and last == str(out)
    assert f"{total.share:.1%} removed, {total.small:,} of {total.total:,} weights" in first
    assert "B:   0.0% removed" in second
    assert "last_optimizer_state" not in torch.load(out)


def test_refusals(tmp_path):
    good = save_model(tmp_path / "good.pt")
    none = save_model(tmp_path / "none.pt", token_mixing="none")
    torch.save({"model": {"w": torch.zeros(2)}, "cfg": {"model": {}}}, tmp_path / "other.pt")
    (tmp_path / "cut.pt").write_bytes(good.read_bytes()[:3000])
    out = tmp_path / "out.pt"
    cases = [
        ("other.pt is a checkpoint of another model", [tmp_path / "other.pt", "-o", out]),
        ("cut.pt", [tmp_path / "cut.pt", "-o", out]),
        ("threshold -0.1", [good, "-o", out, "--threshold", -0.1]),
        ("threshold 1.1", [good, "-o", out, "--threshold", 1.1]),
        ("--threshold: must be a number", [good, "-o", out, "--threshold", "nan"]),
        ("good.pt is the input: choose another file", [good, "-o", good]),
        ("--length: must be at least 1", [good, "-o", out, "--length", 0]),
        ("none: only linear, toeplitz, gated and", [none, "-o", out, "--which", "A"]),
        ("no/out.pt", [good, "-o", tmp_path / "no" / "out.pt"]),
    ]
    there = sorted(tmp_path.iterdir())
    for said, words in cases:
        refused(said, "prune", *words)
        assert sorted(tmp_path.iterdir()) == there
    assert set(prune_checkpoint(none, out)) == {"B", "C"}


def test_a_pruned_checkpoint_translates(trained, tmp_path):
    """Folded by fairseq-generate, it scores as its own weights do unfolded."""
    prune_checkpoint(trained.path, tmp_path / "pruned.pt", 0.2, length=10)
    assert_scores_are(trained.data, tmp_path / "pruned.pt")

"""The mixing matrices in a checkpoint, before its training and after."""

import torch
from fairseq_programs import load

from resmlp_mt.plot.mixing_matrices import mixing_matrices


def test_matrices_before_and_after_training(trained):
    before = mixing_matrices(trained.path, 12, before_training=True)
    after = mixing_matrices(trained.path, 12)
    assert set(before) == set(after) == {(s, i) for s in ("encoder", "decoder") for i in (0, 1)}
    for (side, layer), matrix in after.items():
        assert matrix.shape == (1, 12, 12)
        assert not torch.equal(matrix, before[side, layer])
        assert (side == "encoder") == bool(matrix.triu(1).count_nonzero())
    # what training began from is drawn from the seed in the checkpoint: the same every time
    again = mixing_matrices(trained.path, 12, before_training=True)
    assert all(torch.equal(before[key], again[key]) for key in before)


def test_the_file_of_pretrained_embeddings_may_be_gone(trained, tmp_path):
    state = load(trained.path)
    state["cfg"]["model"].encoder_embed_path = str(tmp_path / "gone.vec")
    torch.save(state, tmp_path / "model.pt")
    expected = mixing_matrices(trained.path, 12)
    found = mixing_matrices(tmp_path / "model.pt", 12)
    assert all(torch.equal(found[key], matrix) for key, matrix in expected.items())

"""The hub fetches nothing because a checkpoint says so.

Without this, ``from_pretrained`` downloads the files of a tokenizer or a BPE from whatever address
the options in the checkpoint name. It can go when ``GeneratorHubInterface`` takes neither from the
checkpoint (test_hostile_checkpoints.py, ``test_nothing_is_fetched``).
"""

import os

from fairseq import hub_utils
from omegaconf import OmegaConf

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.replacing import replace_once


@replace_once(hub_utils, "from_pretrained")
def from_pretrained(original, model_name_or_path, checkpoint_file="model.pt", *args, **kwargs):
    """
    Raises:
        UserError: naming the option, where the caller gave neither it nor the kind.
    """
    loaded = original(model_name_or_path, checkpoint_file, *args, **kwargs)
    for kind in ("bpe", "tokenizer"):
        options = getattr(loaded["args"], kind, None)
        # of a checkpoint with a kind of its own, fairseq ignores the kind that the caller gave
        if not OmegaConf.is_config(options) or options.get("_name") == kwargs.get(kind):
            continue
        for option, value in OmegaConf.to_container(options, resolve=True).items():
            if option not in kwargs and "://" in str(value):
                path = os.path.join(str(model_name_or_path), checkpoint_file)
                raise UserError(
                    f"{path}: its option {option} is an address, {value}, and nothing is fetched "
                    f"because a checkpoint says so: give {option}= or {kind}="
                )
    return loaded

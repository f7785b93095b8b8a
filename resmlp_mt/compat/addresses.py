"""A checkpoint has nothing fetched from where it says."""

from omegaconf import OmegaConf

from resmlp_mt.errors import UserError


def check_addresses(cfg, given, path: str) -> None:
    """See to it that a checkpoint has nothing fetched: fairseq downloads a tokenizer's or a BPE's
    files from what addresses its options name.

    Args:
        cfg: the checkpoint's options, with *given* in them.
        given: options by name that the caller gave.
        path: the checkpoint.

    Raises:
        UserError: naming the option, where the caller gave neither it nor the kind.
    """
    for kind in ("bpe", "tokenizer"):
        if kind in given or not OmegaConf.is_config(cfg[kind]):
            continue
        for option, value in OmegaConf.to_container(cfg[kind], resolve=True).items():
            if option not in given and "://" in str(value):
                raise UserError(
                    f"{path}: its option {option} is an address, {value}, and nothing is fetched "
                    f"because a checkpoint says so: give {option}= or {kind}="
                )

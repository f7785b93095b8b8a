"""The model card of an exported model: its README.md."""

_TEXT = """\
# {source} to {target}

A [ResMLP](https://arxiv.org/abs/2105.03404) translation model, exported from fairseq by
resmlp_mt {version}. This folder is the whole model. It needs Python 3.11 or later and

    pip install numpy onnxruntime sentencepiece

    python {name}/runtime.py --input test.{source} --output test.{target}

Without the two options it reads standard input and writes standard output. In Python:

    import sys
    sys.path.insert(0, "{name}")
    from runtime import Translator
    Translator("{name}").translate(["A sentence."], beam=4, nbest=1)

| | |
| --- | --- |
| layers | {layers[0]} + {layers[1]} |
| channels | {channels[1]} |
| vocabulary | {vocabulary[0]} and {vocabulary[1]} subwords |
| longest sentence | {positions[0]} and {positions[1]} subwords, the end included |
| weights | {precision} |
| size | {megabytes:.1f} MB |
| search | beam {search[beam]}, length penalty {search[lenpen]} |

Compared with PyTorch at export: the states of the encoder differ by {found[states]:.1e},
the scores of ten steps by {found[steps]:.1e}. {found[same]} of {found[lines]} translations
are the same.

config.json has the size and the SHA-256 of each file. The runtime refuses a folder that has others.
"""


def card(config: dict, found: dict, name: str) -> str:
    """
    Args:
        config: what config.json holds.
        found: what the export measured.
        name: of the folder.
    """
    size = sum(file["bytes"] for file in config["files"].values())
    source, target = config["languages"]
    return _TEXT.format(
        **config,
        found=found,
        source=source,
        target=target,
        name=name,
        version=config["made_by"]["resmlp_mt"],
        megabytes=size / 1e6,
    )

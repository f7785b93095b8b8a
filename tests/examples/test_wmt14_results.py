"""What scripts/README.md says of WMT14 is what its result files say."""

from pathlib import Path

from resmlp_mt.files import read_json

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
README = (SCRIPTS / "README.md").read_text(encoding="utf-8")


def test_the_chain():
    result = read_json(SCRIPTS / "results" / "wmt14" / "chain.json")
    assert len(result["rows"]) == 4 and result["versions"]["commit"]
    for row in result["rows"]:
        scores = f"| {row['bleu']:.2f} | {row['chrf']:.2f} | {row['tokenized_bleu']:.2f} |"
        lines = [
            x for x in README.splitlines() if x.startswith(f"| {row['pair']} | `{row['arch']}`")
        ]
        assert len(lines) == 1 and scores in lines[0]
        assert row["sentences"] == 3003 and "version:" in row["tokenized_bleu_signature"]


def test_what_preparing_costs():
    result = read_json(SCRIPTS / "results" / "wmt14" / "prepare.json")
    small, large = result["measured"]
    assert (small["pairs"], large["pairs"]) == (200_000, 2_000_000)
    assert f"{round(large['pairs_per_second'], -1):,.0f} pairs a second" in README
    assert f"{large['wall_seconds']:.1f} s" in README
    peaks = [round(peak / 1e6) for peak in result["peak_rss_without_vocabulary"]]
    assert f"{peaks[1]} MB ({peaks[0]} MB for 200,000 pairs" in README.replace("\n", " ")
    assert result["peak_ratio_last_to_first"] <= 1.1

"""The study behind the tutorial: Table 5 at Multi30k's size, ablations, and what was measured."""

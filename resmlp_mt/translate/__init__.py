"""Text in, text out: one driver for translating and distilling."""

"""Text in, text out, by a checkpoint or an exported folder."""

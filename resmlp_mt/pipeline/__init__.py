"""From raw parallel text to a scored translation: the steps that scripts and examples share."""

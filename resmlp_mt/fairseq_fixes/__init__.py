"""What fairseq needs today: results, trainings, safety. ``plugin.register`` imports them;
each replacement says what is wrong without it and which test shows when it can go."""

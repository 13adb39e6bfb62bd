"""Protocol fuzzing: well-formed requests with random values, and mutated frames, against a live broker."""

"""Names of topics in requests, legal and not."""

TOPICS = [f"fuzz-{number}" for number in range(12)]
BAD_NAMES = ["", ".", "..", "a b", "no/slash", "x" * 249, "x" * 250, "ünicode", "\0", "__consumer_offsets"]

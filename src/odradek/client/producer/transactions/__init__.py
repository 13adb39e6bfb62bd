"""Transaction manager of a producer: sequences and transactions, as a pure state machine."""

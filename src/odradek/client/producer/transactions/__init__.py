"""Numbers and transactions of a producer, decided without waiting for anything."""

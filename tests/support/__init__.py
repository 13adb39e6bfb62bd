"""What tests that start real processes share: a broker to talk to, raw connections, hand-made batches."""

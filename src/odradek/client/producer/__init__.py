"""The producer: records in, batches out, each acknowledged once."""

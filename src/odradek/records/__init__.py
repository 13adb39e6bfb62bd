"""Record batches, sans-IO: format, validation, conversion, compression, compaction, records of clients."""

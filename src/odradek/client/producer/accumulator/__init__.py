"""Records waiting to be sent: batches per partition, their memory, growth and compression."""

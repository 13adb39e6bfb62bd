"""Records of clients: batches and deliveries of producers, records and columns of consumers."""

"""TLS on connections of any network: accepted ones of brokers, dialled ones of brokers and clients."""

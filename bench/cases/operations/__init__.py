"""Growth and operation of brokers: G and O cases."""

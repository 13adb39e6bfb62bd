"""Group coordinator: consumer groups and their offsets, stored in ``__consumer_offsets``."""

"""The consumer: subscription, positions, fetching, and group membership."""

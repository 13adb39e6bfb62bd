"""``odradek cluster adopt`` and ``release``: from one broker to a cluster, and back."""

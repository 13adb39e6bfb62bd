"""Log directories of a broker: opening and loading, periodic maintenance, failures."""

"""Loading of logs at startup, with recovery after an unclean shutdown."""

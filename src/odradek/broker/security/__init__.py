"""Security of a broker's listeners and of its own connections: settings, credentials, key sets, audit."""

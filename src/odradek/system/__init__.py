"""The real world: adapters of the ports. Only composition roots import from here."""

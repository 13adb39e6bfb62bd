"""Group and transaction coordinators hosted by this broker."""

"""Client quotas: rates, entities and throttle times. Pure: the time is passed in."""

"""What may be asked of the world: clock, files, network, chance. Protocol classes only."""

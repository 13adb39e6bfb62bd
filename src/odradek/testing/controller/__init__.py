"""Parts of the scripted controller of simulations."""

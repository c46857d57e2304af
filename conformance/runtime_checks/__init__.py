"""The checks of the simulated runtime: its decisions, small worlds, and the swarm."""

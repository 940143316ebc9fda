"""The rollout of the guard by environment: its phases, the record of acts, and what should run."""

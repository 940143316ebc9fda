"""The rollout as the program keeps it: the record of acts on disk, its gates, and the state answered from."""

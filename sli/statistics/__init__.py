"""The statistics of the gates: owners are the unit, and nothing passes by absence of data."""

"""One module for each command, or for a few that belong together.

Their tops import nothing heavy: `toolgauge --help` loads all of them.
"""

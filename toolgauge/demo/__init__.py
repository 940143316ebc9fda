"""A made-up fleet of agents, for looking at: weeks of telemetry, as its agents would have exported it.

It makes OTLP and nothing else, so it knows nothing of how OTLP is received and kept; only `loading`
knows the service that it fills, from outside. Everything follows from a seed and the last day.
"""

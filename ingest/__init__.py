"""OTLP in, events stored.

The rooms, in the order in which a request walks through them: `receive` (transports, encodings,
statuses), `decode` (wire to columns), `normalise` (columns to events), `keep` (one writer, the store,
the published segments).
"""

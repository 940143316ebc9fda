"""The jobs: polars over the published events, results into a small database.

What may enter: reading the manifest and the segments, computing, and writing the results. Nothing
here opens the live event store, and nothing here knows how events came in or who looks at results.
"""

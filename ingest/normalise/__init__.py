"""Columns of records in, events out: the one place where what was sent becomes what is kept.

Pure functions over columns. Every transport and `import` go through `normalise`, and nothing
downstream repairs, re-derives or re-reads the raw form.
"""

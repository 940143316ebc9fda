"""The domain, pure: vocabulary, schemas, formulas.

Everything here is a value or a function of values. Nothing in this package opens a file, a
socket or a database, reads a clock, or imports another package of this repository.
"""

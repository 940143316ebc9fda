"""The nightly report as people read it."""

"""Telemetry that lies in files, brought in through the same writer as everything else."""

"""`toolgauge config`: the settings in force and where each came from."""

from __future__ import annotations

import typer

from toolgauge.options import Config, DataDir, Format, settings_in_force
from toolgauge.output import OutputFormat, write_rows


def config(
    context: typer.Context,
    data_dir: DataDir = None,
    config: Config = None,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show each setting: its value, where it came from, what it means. Secrets are hidden.

    A flag counts before a TOOLGAUGE_* variable (TOOLGAUGE_DATA_DIR, ...), that before toolgauge.toml.

    \b
    Examples:
      toolgauge config
      TOOLGAUGE_QUEUE_BYTES=256MiB toolgauge config --format json
    """
    import pyarrow as pa

    from toolgauge.settings import Settings

    loaded = settings_in_force(context, data_dir, config)
    rows = [
        {
            "setting": name,
            "value": loaded.shown(name),
            "origin": loaded.origins[name],
            "meaning": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]
    write_rows(pa.Table.from_pylist(rows), format)

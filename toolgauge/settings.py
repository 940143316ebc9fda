"""Every setting, with its default and its meaning, and where its value came from.

A flag counts before a `TOOLGAUGE_*` variable, that before the settings file, that before the default.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from toolgauge.exceptions import BadSetting, SettingsFileUnreadable, UnknownSetting

SETTINGS_FILE = Path("toolgauge.toml")
PREFIX = "TOOLGAUGE_"
CONFIG_VARIABLE = "TOOLGAUGE_CONFIG"

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"\A\s*([0-9]+)\s*([A-Za-z]*)\s*\Z")


def parse_size(value: object) -> object:
    """A number of bytes from a text such as `64MiB`, `500 kB` or `1048576`; a number is left as it is.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    found = _SIZE.match(value)
    if found is None or found[2].upper() not in _UNITS:
        raise ValueError("write a number of bytes, or a size such as 64MiB")
    return int(found[1]) * _UNITS[found[2].upper()]


def format_size(size: int) -> str:
    """A number of bytes in the largest binary unit that says it exactly; `parse_size` gives it back."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _UNITS[unit.upper()] == 0:
            return f"{size // _UNITS[unit.upper()]}{unit}"
    return str(size)


def parse_days(value: object) -> object:
    """A number of days; nothing, `0` and the empty text are None: no end."""
    return None if value in (None, "", "0", 0, "None") else value


def parse_order(text: str) -> dict[str, str]:
    """For each environment that may only follow another, that one; from `public_cloud=internal, b=a`.

    Raises:
        ValueError: the text is none, or an environment would wait for itself.
    """
    order: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        later, _, earlier = (part.strip() for part in pair.partition("="))
        if not later or not earlier:
            raise ValueError("write the later environment, =, the earlier one: public_cloud=internal")
        order[later] = earlier
    for each in order:
        seen, following = {each}, order.get(each)
        while following is not None:
            if following in seen:
                raise ValueError(f"{each} would wait for itself")
            seen.add(following)
            following = order.get(following)
    return order


Size = Annotated[int, BeforeValidator(parse_size), Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
RetentionDays = Annotated[int | None, BeforeValidator(parse_days), Field(ge=1)]
OptionalPath = Annotated[
    Path | None, BeforeValidator(lambda value: Path(value).expanduser() if value else None)
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """The settings in force."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_default=False
    )

    data_dir: Path = Field(
        Path("data"), description="folder of everything that is kept; a relative one begins where you are"
    )
    host: str = Field(
        "127.0.0.1", description="IP address to listen on; beyond loopback a token is needed, and TLS advised"
    )
    grpc_port: Port = Field(4317, description="OTLP/gRPC; 0 picks a free one")
    http_port: Port = Field(4318, description="OTLP/HTTP; 0 picks a free one")
    sql_port: Port = Field(5433, description="reserved for the SQL endpoint; nothing listens there yet")
    web_port: Port = Field(8080, description="reserved for the web board; nothing listens there yet")
    owner_attribute: str = Field(
        "owner.id", min_length=1, description="resource attribute that names the owner; kept as a keyed hash"
    )
    max_request_bytes: Size = Field(64 * 2**20, description="largest request, after decompression")
    queue_bytes: Size = Field(128 * 2**20, description="how much may wait to be written")
    queue_wait_seconds: float = Field(
        8.0, ge=0, allow_inf_nan=False, description="how long a request may wait for room in the queue"
    )
    publish_interval_seconds: Seconds = Field(1.0, description="how far the published events may be behind")
    retention_days: RetentionDays = Field(
        None,
        description="whole UTC days before today whose events are kept; older ones are removed for good. "
        "Empty or 0 keeps all",
    )
    refresh_interval_seconds: Seconds = Field(1.0, description="how far the results may be behind these")
    report_schedule: str = Field(
        "30 1 * * *",
        description="when the nightly report is made, as a cron expression in UTC; empty: not by the service",
    )
    rollout_after: str = Field(
        "",
        description="environments that may only follow another: public_cloud=internal; with commas between",
    )
    query_timeout_seconds: Seconds = Field(30.0, description="longest time of an SQL query")
    query_memory_bytes: Size = Field(2**30, description="memory of SQL queries, and of one answer")
    query_max_rows: int = Field(1_000_000, ge=1, description="most rows of an SQL answer")
    ingest_token: SecretStr = Field(
        SecretStr(""), description="tokens that clients must show, with commas or blanks between them"
    )
    ingest_token_file: OptionalPath = Field(None, description="a file of such tokens, one on each line")
    tls_certificate: OptionalPath = Field(None, description="PEM file; with it, OTLP is received over TLS")
    tls_key: OptionalPath = Field(None, description="PEM file of the certificate's key, not encrypted")
    tls_client_ca: OptionalPath = Field(
        None, description="PEM file of the authorities that clients need a certificate of"
    )
    client_requests_per_second: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="most requests a second of one address; 0: any number"
    )
    client_request_burst: int = Field(100, ge=1, description="how many of these may come at once")
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else json"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least to be logged")

    @field_validator("data_dir")
    @classmethod
    def _without_tilde(cls, value: Path) -> Path:
        return value.expanduser()

    @field_validator("report_schedule")
    @classmethod
    def _cron(cls, value: str) -> str:
        from cronsim import CronSim, CronSimError

        try:
            if value:
                next(CronSim(value, datetime(2026, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration) as error:
            raise ValueError(
                f"{value!r} is no cron expression of five fields that ever comes due ({error})"
            ) from None
        return value

    @field_validator("rollout_after")
    @classmethod
    def _order(cls, value: str) -> str:
        parse_order(value)
        return value

    @field_validator("host")
    @classmethod
    def _address(cls, value: str) -> str:
        try:
            if value != "localhost":
                ipaddress.ip_address(value)
        except ValueError:
            raise ValueError(
                f"{value} is no IP address; use 127.0.0.1 for this machine alone, 0.0.0.0 for all networks"
            ) from None
        return value

    def environment(self) -> dict[str, str]:
        """The settings as variables, for a process that is to have the same; secrets are among them."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            f"{PREFIX}{name.upper()}": value.get_secret_value()
            if isinstance(value, SecretStr)
            else str(value)
            for name, value in values.items()
            if value is not None
        }


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in force and where they came from.

    Attributes:
        origins: for each setting: its flag, its variable, the path of the file, or `default`.
        file: the settings file, if there is one.
    """

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None

    def shown(self, name: str) -> str:
        """The value of a setting for people; secrets are not in it."""
        value = getattr(self.settings, name)
        if isinstance(value, SecretStr):
            return "hidden" if value.get_secret_value() else ""
        if value is None:
            return ""
        if name.endswith("_bytes"):
            return format_size(value)
        return f"{value:g}" if isinstance(value, float) else str(value)


def load_settings(flags: Mapping[str, Any] | None = None, config: Path | None = None) -> LoadedSettings:
    """Gather the settings.

    Args:
        flags: what the command line says, by the settings' names; None stands for not said.
        config: the settings file that the command line names.

    Raises:
        WrongUsage: a name or a value cannot be; the sentence says which and where it stands.
    """
    said = {name: value for name, value in (flags or {}).items() if value is not None}
    file = _settings_file(config)
    in_file = _read_file(file) if file else {}
    names = list(Settings.model_fields)
    variables = {name for name, value in os.environ.items() if name.upper().startswith(PREFIX) and value}
    known_variables = {f"{PREFIX}{name.upper()}": name for name in names}
    for variable in sorted(variables):
        if variable.upper() not in {*known_variables, CONFIG_VARIABLE}:
            raise UnknownSetting(variable, "the environment", _nearest(variable.upper(), known_variables))
    for name in in_file:
        if name not in names:
            raise UnknownSetting(name, str(file), _nearest(name, names))

    origins = dict.fromkeys(names, "default")
    origins |= dict.fromkeys(in_file, str(file))
    origins |= {known_variables[v.upper()]: v for v in variables if v.upper() in known_variables}
    origins |= {name: f"--{name.replace('_', '-')}" for name in said}
    try:
        return LoadedSettings(_settings_class(in_file)(**said), origins, file)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise BadSetting(name, origins[name], first["msg"].removeprefix("Value error, ")) from error


def _settings_class(in_file: dict[str, Any]) -> type[Settings]:
    """Settings whose file has been read already."""

    class SettingsWithFile(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=in_file)

    return SettingsWithFile


def _settings_file(config: Path | None) -> Path | None:
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        return named.expanduser()
    return SETTINGS_FILE if SETTINGS_FILE.exists() else None


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SettingsFileUnreadable(file, error.strerror or type(error).__name__) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsFileUnreadable(file, str(error)) from error


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name.replace("-", "_"), list(known), n=1)), None)

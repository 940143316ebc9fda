"""Each setting comes from where it counts most, and what cannot be is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgauge.exceptions import BadSetting, SettingsFileUnreadable, UnknownSetting
from toolgauge.settings import Settings, format_size, load_settings, parse_size


def test_defaults_are_the_public_ones() -> None:
    loaded = load_settings()
    settings = loaded.settings
    assert (settings.grpc_port, settings.http_port, settings.sql_port, settings.web_port) == (
        4317,
        4318,
        5433,
        8080,
    )
    assert settings.host == "127.0.0.1"
    assert settings.data_dir == Path("data")
    assert settings.max_request_bytes == 64 * 1024 * 1024
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.file is None


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_a_flag_counts_before_a_variable_before_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "toolgauge.toml").write_text("grpc_port = 1\nhttp_port = 2\nsql_port = 3\n")
    monkeypatch.setenv("TOOLGAUGE_GRPC_PORT", "11")
    monkeypatch.setenv("TOOLGAUGE_HTTP_PORT", "12")
    loaded = load_settings({"grpc_port": 21, "http_port": None})
    assert (loaded.settings.grpc_port, loaded.settings.http_port, loaded.settings.sql_port) == (21, 12, 3)
    assert loaded.origins["grpc_port"] == "--grpc-port"
    assert loaded.origins["http_port"] == "TOOLGAUGE_HTTP_PORT"
    assert loaded.origins["sql_port"] == "toolgauge.toml"
    assert loaded.origins["web_port"] == "default"


def test_the_file_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("grpc_port = 1\n")
    (tmp_path / "b.toml").write_text("grpc_port = 2\n")
    monkeypatch.setenv("TOOLGAUGE_CONFIG", str(tmp_path / "a.toml"))
    assert load_settings().settings.grpc_port == 1
    assert load_settings(config=tmp_path / "b.toml").settings.grpc_port == 2


@pytest.mark.parametrize("content", [None, b"grpc_port = ", b"\xff\xfe"])
def test_a_file_that_is_named_must_be_readable(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsFileUnreadable, match=r"x\.toml"):
        load_settings(config=path)


def test_an_unknown_variable_is_named_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGAUGE_GRPCPORT", "1")
    with pytest.raises(UnknownSetting, match=r"TOOLGAUGE_GRPCPORT in the environment .* TOOLGAUGE_GRPC_PORT"):
        load_settings()


@pytest.mark.parametrize(("key", "nearest"), [("data-dir", "data_dir"), ("hots", "host"), ("zzz", None)])
def test_an_unknown_key_is_named_with_the_nearest(tmp_path: Path, key: str, nearest: str | None) -> None:
    (tmp_path / "toolgauge.toml").write_text(f'{key} = "x"\n')
    with pytest.raises(UnknownSetting) as raised:
        load_settings()
    assert (raised.value.name, raised.value.nearest, raised.value.where) == (key, nearest, "toolgauge.toml")


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGAUGE_HOST", "")
    loaded = load_settings()
    assert (loaded.settings.host, loaded.origins["host"]) == ("127.0.0.1", "default")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grpc_port", "65536"),
        ("grpc_port", "-1"),
        ("grpc_port", "http"),
        ("queue_bytes", "0"),
        ("queue_bytes", "64 MiBs"),
        ("queue_bytes", "-1MiB"),
        ("query_timeout_seconds", "0"),
        ("query_timeout_seconds", "inf"),
        ("query_timeout_seconds", "nan"),
        ("refresh_interval_seconds", "soon"),
        ("log_level", "loud"),
        ("owner_attribute", ""),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_origin(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "toolgauge.toml").write_text(f'{name} = "{value}"\n')
    with pytest.raises(BadSetting, match=rf"{name} \(toolgauge\.toml\): ") as raised:
        load_settings()
    assert raised.value.exit_status == 2


@pytest.mark.parametrize("host", ["example.com", "", "127.0.0.1:80", "[::1]"])
def test_only_addresses_are_listened_on(host: str) -> None:
    with pytest.raises(BadSetting, match="no IP address"):
        load_settings({"host": host})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "0.0.0.0", "::", "10.0.0.1"])
def test_every_address_can_be_set(host: str) -> None:
    assert load_settings({"host": host}).settings.host == host


def test_secrets_are_handed_on_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a-secret-that-nobody-sees"
    monkeypatch.setenv("TOOLGAUGE_INGEST_TOKEN", secret)
    loaded = load_settings()
    assert loaded.shown("ingest_token") == "hidden"
    assert secret not in repr(loaded)
    assert loaded.settings.environment()["TOOLGAUGE_INGEST_TOKEN"] == secret


def test_files_that_are_not_named_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGAUGE_TLS_KEY", "~/key.pem")
    loaded = load_settings()
    assert loaded.settings.tls_key == Path("~/key.pem").expanduser()
    assert loaded.settings.tls_certificate is None
    assert loaded.shown("tls_certificate") == ""
    assert "TOOLGAUGE_TLS_CERTIFICATE" not in loaded.settings.environment()


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64MiB", 64 * 2**20), (" 64 mib ", 64 * 2**20), ("1GiB", 2**30), ("5kB", 5000), ("7B", 7)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert load_settings({"queue_bytes": text}).settings.queue_bytes == size


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_is_shown_as_it_can_be_read(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_another_process_gets_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings({"grpc_port": 0, "queue_bytes": "7MiB", "host": "::1"}).settings
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings().settings.model_dump() == settings.model_dump()

"""Both transports over TLS, with and without client certificates, and the program's own commands beside."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from ingest.exceptions import CertificateUnusable
from ingest.receive.tls import load_tls

TOKEN = "0123456789abcdef-over-tls"
_EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Signs certificates, each with its key, into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", self.key, "-out", self.certificate, "-days", 2, "-subj", f"/CN={name}"),
        )

    def sign(self, name: str) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", key, "-out", certificate, "-days", 2, "-subj", f"/CN={name}"),
            *("-CA", self.certificate, "-CAkey", self.key, "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        )
        return certificate, key


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "authority")


@pytest.fixture(scope="module")
def server_files(authority: Authority) -> tuple[Path, Path]:
    return authority.sign("server")


@pytest.fixture(scope="module")
def service(
    folder: Path, authority: Authority, server_files: tuple[Path, Path], service_class: Any
) -> Iterator[Any]:
    """A service that wants a client certificate and a token."""
    certificate, key = server_files
    service = service_class(
        folder / "data",
        TOOLGAUGE_TLS_CERTIFICATE=str(certificate),
        TOOLGAUGE_TLS_KEY=str(key),
        TOOLGAUGE_TLS_CLIENT_CA=str(authority.certificate),
        TOOLGAUGE_INGEST_TOKEN=TOKEN,
    )
    yield service
    service.kill()


def _http(service: Any, authority: Path, client: tuple[Path, Path] | None = None) -> httpx.Client:
    context = ssl.create_default_context(cafile=authority)
    if client:
        context.load_cert_chain(*client)
    return httpx.Client(base_url=f"https://{service.endpoints['http']}", verify=context, timeout=30)


def _export(
    service: Any, body: bytes, authority: Path, client: tuple[Path, Path] | None = None, token: str = TOKEN
) -> bytes:
    certificate, key = (file.read_bytes() for file in client) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.read_bytes(), key, certificate)
    with grpc.secure_channel(service.endpoints["grpc"], credentials) as channel:
        call: Any = channel.unary_unary(_EXPORT)
        answer: bytes = call(body, timeout=20, metadata=(("authorization", f"Bearer {token}"),))
        return answer


def test_a_certificate_and_a_token_let_in_on_both_transports(
    service: Any, otlp: Any, authority: Authority
) -> None:
    client = authority.sign("client")
    body = otlp.logs(otlp.log(otlp.tool_call))
    headers = {"content-type": "application/x-protobuf", "authorization": f"Bearer {TOKEN}"}
    with _http(service, authority.certificate, client) as http:
        assert http.post("/v1/logs", content=body, headers=headers).headers["toolgauge-stored"] == "1"
        without = http.post("/v1/logs", content=body, headers=headers | {"authorization": ""})
        assert without.status_code == 401
    assert _export(service, body, authority.certificate, client) == b""
    with pytest.raises(grpc.RpcError) as caught:
        _export(service, body, authority.certificate, client, token="another-token-altogether")
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_without_a_certificate_only_health_is_told(service: Any, otlp: Any, authority: Authority) -> None:
    with _http(service, authority.certificate) as http:
        assert http.get("/healthz").status_code == 200
        refused = http.post(
            "/v1/logs",
            content=b"{}",
            headers={"content-type": "application/json", "authorization": f"Bearer {TOKEN}"},
        )
        assert refused.status_code == 401
        assert "a client certificate is needed" in refused.json()["message"]
    with pytest.raises(grpc.RpcError) as caught:
        _export(service, b"", authority.certificate)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_certificates_of_others_are_refused(service: Any, folder: Path, authority: Authority) -> None:
    others = Authority(folder, "others")
    wrong = others.sign("wrong-client")
    with _http(service, authority.certificate, wrong) as http, pytest.raises(httpx.TransportError):
        http.get("/healthz")
    with pytest.raises(grpc.RpcError):
        _export(service, b"", authority.certificate, wrong)
    # And a client that trusts others only does not talk to this server.
    with _http(service, others.certificate) as http, pytest.raises(httpx.ConnectError):
        http.get("/healthz")


def test_clients_without_tls_get_nowhere_and_harm_nobody(
    service: Any, otlp: Any, authority: Authority
) -> None:
    with pytest.raises(httpx.TransportError):
        service.post("logs", b"")
    with pytest.raises(grpc.RpcError):
        service.export("logs", b"", timeout=5)
    with _http(service, authority.certificate) as http:
        assert http.get("/readyz").json()["ready"] is True


def test_the_programs_own_commands_find_their_service(
    service: Any, otlp: Any, toolgauge: Any, tmp_path: Path
) -> None:
    (tmp_path / "logs.pb").write_bytes(otlp.logs(otlp.log(otlp.tool_call | {"call_id": "imported"})))
    data_dir = ["--data-dir", str(service.data_dir)]
    done = toolgauge("import", str(tmp_path / "logs.pb"), "--format", "json", *data_dir)
    assert json.loads(done.stdout)[0]["stored"] == 1, done.stderr
    shown = toolgauge("sql", "SELECT call_id FROM tool_calls WHERE call_id = 'imported'", *data_dir)
    assert "imported" in shown.stdout
    # It waited for the service, which means that it could ask it.
    assert shown.stderr == ""
    assert "problem" not in toolgauge("doctor", *data_dir).stdout
    assert f"OTLP_ENDPOINT=https://{service.endpoints['grpc']}" in service.log.read_text()


def test_without_an_authority_no_client_certificate_is_asked_for(
    otlp: Any, start_service: Callable[..., Any], authority: Authority, server_files: tuple[Path, Path]
) -> None:
    certificate, key = server_files
    service = start_service(
        only="ingest", TOOLGAUGE_TLS_CERTIFICATE=str(certificate), TOOLGAUGE_TLS_KEY=str(key)
    )
    body = otlp.logs(otlp.log(otlp.tool_call))
    assert _export(service, body, authority.certificate) == b""
    with _http(service, authority.certificate) as http:
        answer = http.post("/v1/logs", content=body, headers={"content-type": "application/x-protobuf"})
        assert answer.headers["toolgauge-duplicates"] == "1"


def test_certificates_that_cannot_be_used_are_named(
    folder: Path, authority: Authority, server_files: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = server_files
    assert load_tls(None, None, None) is None
    assert load_tls(certificate, key, authority.certificate) is not None
    encrypted = tmp_path / "encrypted.key"
    _openssl("ec", "-in", key, "-out", encrypted, "-aes128", "-passout", "pass:secret")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    for files in (
        (certificate, None, None),
        (None, None, authority.certificate),
        (certificate, authority.key, None),
        (certificate, encrypted, None),
        (nonsense, key, None),
        (certificate, key, nonsense),
        (tmp_path / "missing", key, None),
    ):
        with pytest.raises(CertificateUnusable, match="tls_certificate"):
            load_tls(*files)

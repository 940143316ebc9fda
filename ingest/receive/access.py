"""Who may send: tokens, client certificates, and how often one client may come."""

from __future__ import annotations

import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from ingest.exceptions import TokenUnusable, TooManyRequests, Unauthenticated

# A token of fewer characters can be guessed; `openssl rand -hex 32` gives 64.
_SHORTEST_TOKEN = 16
# Addresses that are remembered; who was not seen for longest is forgotten first, and starts anew.
_CLIENTS_REMEMBERED = 10_000
# What a client has waited for is there, although sums of seconds are not exact.
_ROUNDING = 1e-9


def read_tokens(given: str, file: Path | None) -> tuple[str, ...]:
    """The tokens of both settings; several may be valid, so that they can be changed one after the other.

    Args:
        given: tokens with commas or blanks between them; may be empty.
        file: a file with one token on each line; empty lines and those that begin with # are left out.

    Raises:
        TokenUnusable: the file cannot be read or is empty, or a token is too short or of other signs than
            a header can carry.
    """
    tokens = _checked("ingest_token", given.replace(",", " ").split())
    if file is not None:
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise TokenUnusable("ingest_token_file", f"{file} cannot be read: {reason}") from None
        found = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
        if not found:
            raise TokenUnusable("ingest_token_file", f"{file} holds no token; write one on each line")
        tokens += _checked("ingest_token_file", found)
    return tokens


def _checked(where: str, tokens: list[str]) -> tuple[str, ...]:
    for token in tokens:
        if len(token) < _SHORTEST_TOKEN:
            raise TokenUnusable(
                where, f"a token needs {_SHORTEST_TOKEN} characters or more; make one: `openssl rand -hex 32`"
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise TokenUnusable(where, "a token is of ASCII letters, digits and signs, without blanks")
    return tuple(tokens)


def local_pass(owner_key: bytes) -> str:
    """The token of the program's own commands: whoever can read a data directory's key may write to it."""
    return hmac.new(owner_key, b"toolgauge import", sha256).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    return host == "localhost" or ip_address(host).is_loopback


@dataclass(frozen=True, slots=True)
class Caller:
    """What a transport knows of a client before it reads a body.

    Attributes:
        address: its IP address; empty where there is none.
        authorization: the header of this name, as it came; empty without.
        has_certificate: whether its certificate was verified.
    """

    address: str
    authorization: str
    has_certificate: bool


class Access:
    """Decides about a request before its body is read."""

    def __init__(
        self,
        tokens: Iterable[str] = (),
        local_pass: str = "",
        certificate_needed: bool = False,
        requests_per_second: float = 0.0,
        burst: int = 1,
    ) -> None:
        """Prepare.

        Args:
            tokens: any of them is good; none at all: none is needed.
            local_pass: is as good as a token and a certificate, and is not counted; empty: there is none.
            requests_per_second: of one address; 0: any number.
            burst: how many of them may come at once.
        """
        # Digests have one length, so that the comparison takes the same time for every token.
        self._tokens = [_digest(token) for token in tokens]
        self._local_pass = _digest(local_pass) if local_pass else None
        self._certificate_needed = certificate_needed
        self._rates = ClientRates(requests_per_second, burst) if requests_per_second else None

    def check(self, caller: Caller) -> None:
        """Let a request in.

        Raises:
            Unauthenticated: it has not what is needed.
            TooManyRequests: its address sends too often.
        """
        scheme, _, token = caller.authorization.partition(" ")
        shown = _digest(token.strip()) if scheme.lower() == "bearer" else b""
        if self._local_pass is not None and hmac.compare_digest(shown, self._local_pass):
            return
        # Before the token: who guesses tokens is slowed down as well.
        if self._rates is not None:
            self._rates.take(caller.address)
        if self._certificate_needed and not caller.has_certificate:
            raise Unauthenticated("a client certificate")
        self._check_token(shown)

    def check_reader(self, authorization: str) -> None:
        """Let somebody read the figures: with a token, where there are any; certificates are for senders.

        Raises:
            Unauthenticated: there is no token, or a wrong one.
        """
        scheme, _, token = authorization.partition(" ")
        self._check_token(_digest(token.strip()) if scheme.lower() == "bearer" else b"")

    def _check_token(self, shown: bytes) -> None:
        # All of them, whichever is right.
        if self._tokens and not sum([hmac.compare_digest(shown, token) for token in self._tokens]):
            raise Unauthenticated("a token (Authorization: Bearer …)")


class ClientRates:
    """A bucket of requests for each address, filled at a constant rate."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = max(burst, 1)
        # How many requests were left, and when that was, in seconds.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, now: float | None = None) -> None:
        """Count one request of an address, at `now` in seconds of the monotonic clock.

        Raises:
            TooManyRequests: it has none left.
        """
        now = time.monotonic() if now is None else now
        left, since = self._buckets.pop(address, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        taken = left >= 1 - _ROUNDING
        self._buckets[address] = (max(left - 1, 0.0) if taken else left, now)
        if len(self._buckets) > _CLIENTS_REMEMBERED:
            self._buckets.popitem(last=False)
        if not taken:
            raise TooManyRequests(self._per_second, math.ceil((1 - left) / self._per_second))


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()

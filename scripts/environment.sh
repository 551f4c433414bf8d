# Sourced by scripts/run and scripts/test: makes the virtual environment in .venv and keeps it up to date.
# Needs a Python from 3.11 on with pip; everything else is installed into .venv.
# Failures are passed on by hand, for `set -e` is off in a function that is called as a condition.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
environment="$root/.venv"

# Images for containers often set it; then each process would compile every module anew.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*" >&2; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# The first Python that is new enough: the usual one before those that carry their version in their name.
find_python() {
    local candidate
    for candidate in python3 python python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    say "Purgatorio needs Python 3.11 or newer, and there is none in PATH (looked for python3, python, python3.14 … python3.11)."
    return 1
}

# Makes .venv anew when there is none, or when its Python has gone away.
make_environment() {
    is_new_enough "$environment/bin/python" && return
    local python
    python="$(find_python)" || return
    say "Making the environment in .venv (once; takes a minute and needs the network) …"
    rm -rf "$environment"
    # Debian packs the pip of new environments apart; then the pip outside installs into it.
    "$python" -m venv "$environment" >/dev/null 2>&1 || "$python" -m venv --without-pip "$environment"
}

install() {
    if "$environment/bin/python" -c 'import pip' >/dev/null 2>&1; then
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    else
        "$(find_python)" -m pip --python "$environment/bin/python" install --quiet --disable-pip-version-check "$@"
    fi
}

# ensure_environment [EXTRAS]: installs the project, with these extras, unless that was done for this pyproject.toml.
ensure_environment() {
    local extras="${1:-}" stamp wanted options=()
    make_environment || return
    stamp="$environment/.installed-for-${extras:-run}"
    wanted="$root $(cksum <"$root/pyproject.toml")"
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return
    # Whatever else was installed, the project was; and dev has all that quick has.
    if [ -z "$extras" ] && cat "$environment"/.installed-for-* 2>/dev/null | grep -qxF "$wanted"; then return; fi
    if [ "$extras" = quick ] && cat "$environment"/.installed-for-dev* 2>/dev/null | grep -qxF "$wanted"; then return; fi
    case "$extras" in
        quick)
            options=(--no-compile) # most modules are never imported
            say "Installing into .venv what the quick check needs: pytest, mypy, ruff, and what its tests import (200 MB) …"
            ;;
        dev*) say "Installing into .venv what all tests need: Spark, Sphinx and Playwright, too (1.4 GB) …" ;;
        *) say "Installing what pyproject.toml asks for${extras:+ (with $extras)} …" ;;
    esac
    install ${options[@]+"${options[@]}"} --editable "$root${extras:+[$extras]}" || return
    printf '%s\n' "$wanted" >"$stamp"
}

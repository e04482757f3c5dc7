#!/bin/sh
# Make .venv if there is none, and install the named lock files and the project into it.
#
#   install.sh run embedded …      PYTHON chooses the interpreter (default python3)
set -eu

python=${PYTHON:-python3}
here=$(dirname "$0")

fail() {
    echo "$*" >&2
    exit 1
}

make_venv() {
    command -v "$python" >/dev/null || fail "Python 3.11 or newer is needed: no $python in PATH"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "Python 3.11 or newer is needed: $python is older. Set PYTHON to a newer one."
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv --clear .venv
        return
    fi
    # Debian and Ubuntu keep ensurepip in a package of its own; the wheel of pip is enough.
    command -v apt-get >/dev/null || fail "Python's module ensurepip is missing: install it, as in" \
        "'apt-get install python3-venv' or 'dnf install python3-pip'"
    packages=$(mktemp -d)
    "$here/unpack_debs.sh" "$packages" python3-pip-whl
    "$python" -m venv --clear --without-pip .venv
    wheel=$(echo "$packages"/root/usr/share/python-wheels/pip-*.whl)
    .venv/bin/python "$wheel/pip" install -q --no-index "$wheel"
    rm -rf "$packages"
}

.venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
echo "installing what requirements/ names into .venv: the first time a minute or more"
locks=
for name in "$@"; do
    locks="$locks -r $here/$name.txt"
done
# Unquoted: several arguments.
.venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes $locks
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .

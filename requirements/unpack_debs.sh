#!/bin/sh
# Fetch a package of this Debian or Ubuntu and unpack it into FOLDER/root: nothing is installed, no
# service starts, no right beyond one's own is needed. apt checks the signatures as always.
#
#   unpack_debs.sh FOLDER PACKAGE [PATTERN]
#
# Dependencies whose name matches PATTERN (grep -E, whole name) are fetched as well, but no headers,
# no alternative and no collective packages.
set -eu

folder=$1 package=$2 pattern=${3:-$2}
mkdir -p "$folder/lists/partial" "$folder/archives/partial" "$folder/debs" "$folder/root"

set -- -q -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder" -o Dir::Cache::pkgcache= \
    -o Dir::Cache::srcpkgcache= -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" \
    -o Acquire::Languages=none -o Acquire::Retries=3

apt-get "$@" update
names=$(apt-cache "$@" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$package" | grep -xE "$package|$pattern" \
    | grep -vE -e '-(hipe|nox|x11|dev)$' | sort -u)
# Unquoted: one argument per name.
(cd "$folder/debs" && apt-get "$@" download $names)
for file in "$folder"/debs/*.deb; do
    dpkg-deb -x "$file" "$folder/root"
done
rm -rf "$folder/debs" "$folder/lists" "$folder/archives"

#!/usr/bin/env bash
# Installs what the tests need and the machine lacks. The race detector needs a
# C compiler; everything else comes by go.mod.
set -euo pipefail

need=()
# The compiler alone is not enough: it must find the headers of the C library.
echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1 || need+=(gcc libc6-dev)
[ "${#need[@]}" -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "missing: ${need[*]}; install them with: sudo apt-get install -y ${need[*]}" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${need[@]}"

#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: a C compiler for the race
# detector, and the servers and the browser that the tests start by themselves, on
# ports and in folders of their own. Everything else comes by go.mod.
set -euo pipefail

# Debian keeps servers where an ordinary user's PATH does not reach.
PATH="$PATH:/usr/sbin:/sbin"
need=()
# The compiler alone is not enough: it must find the headers of the C library.
echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1 || need+=(gcc libc6-dev)
command -v redis-server >/dev/null || need+=(redis-server)
command -v nginx >/dev/null || need+=(nginx)
command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need+=(postgresql)
compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || need+=(libfaketime)
# Pages are looked at in a real browser, and letters are part of how they look.
command -v chromium >/dev/null || need+=(chromium)
find /usr/share/fonts -name '*.[ot]tf' -print -quit 2>/dev/null | grep -q . || need+=(fonts-dejavu-core)
[ "${#need[@]}" -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "missing: ${need[*]}; install them with: sudo apt-get install -y ${need[*]}" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${need[@]}"

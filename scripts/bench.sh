#!/usr/bin/env bash
# Runs the benchmarks of the goals and prints one line for each:
#   RATIO <name> <value> <goal>
# An argument narrows them, for example: make bench ARGS=GroupCommit
set -euo pipefail
run() {
	go test "$1" -run '^$' -bench "$2" -benchtime 1x -timeout 30m |
		sed -u -E 's/^Benchmark[A-Za-z0-9/-]*[[:space:]]*//' |
		grep -E '^(RATIO |  [^ ]|ok|FAIL|--- FAIL|panic)|_test\.go:'
}
run ./internal/bench "${1:-.}"
# Locks and limits stand beside other libraries, in a module of its own.
cd bench
run ./locks "${1:-.}"
run ./limits "${1:-.}"

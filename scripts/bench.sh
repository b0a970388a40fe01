#!/usr/bin/env bash
# Runs the benchmarks of the goals and prints one line for each:
#   RATIO <name> <value> <goal>
# An argument narrows them, for example: make bench ARGS=GroupCommit
set -euo pipefail
go test ./internal/bench -run '^$' -bench "${1:-.}" -benchtime 1x -timeout 30m |
	sed -u -E 's/^Benchmark[A-Za-z0-9/-]*[[:space:]]*//' |
	grep -E '^(RATIO |  [^ ]|ok|FAIL|--- FAIL|panic)|_test\.go:'

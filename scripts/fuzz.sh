#!/usr/bin/env bash
# Runs every fuzz target of the tree for the time given (default 30s), one after
# another. Exits non-zero at the first finding.
set -euo pipefail
time="${1:-30s}"

while IFS=: read -r file name; do
	dir="./$(dirname "$file")"
	echo "fuzz $dir $name $time"
	go test "$dir" -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 50x
done < <(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' . | sed 's/:func /:/' | sort)

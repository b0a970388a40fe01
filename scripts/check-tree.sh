#!/usr/bin/env bash
# Facts about the tree that no linter knows.
set -euo pipefail
fail=0

while read -r lines file; do
	if [ "$lines" -gt 500 ]; then
		echo "$file has $lines lines; split it by what its parts mean (500 at most)" >&2
		fail=1
	fi
done < <(git ls-files '*.go' | xargs -r wc -l | awk '$2 != "total" {print $1, $2}')

# The SQLite engine works only with the libc it was translated for.
sqlite=$(go list -m -f '{{.Dir}}' modernc.org/sqlite)
want=$(awk '$1 == "modernc.org/libc" {print $2} $1 == "require" && $2 == "modernc.org/libc" {print $3}' "$sqlite/go.mod" | head -n 1)
have=$(go list -m -f '{{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}' modernc.org/libc)
if [ "$want" != "$have" ]; then
	echo "modernc.org/libc is $have, but modernc.org/sqlite was made for $want; mend the replace line in go.mod" >&2
	fail=1
fi
exit "$fail"

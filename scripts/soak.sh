#!/usr/bin/env bash
# Leads a million simulated lives with new seeds, lets lockers fight under random
# faults for the seconds given (default 600), then runs the random lives, the crash
# tests and the crowds again and again for as long, with new seeds too. Ends at the
# first violation; the seed is in its output.
set -euo pipefail
from=$(date +%s)000000
echo "a million simulated lives, seeds from $from"
go test ./internal/lab/sim -run 'Interleavings|SeedsRepeat' -from="$from" -runs=1000000 -again=2000 -timeout=0 -count=1
echo "locks under random faults"
go test ./lock/redislock -run 'Soak' -soak="${1:-600}s" -timeout=0 -count=1 -v
end=$((SECONDS + ${1:-600}))
mkdir -p .bin/testenv
CGO_ENABLED=0 go build -buildvcs=false -o .bin/testenv/doorbuster ./cmd/doorbuster
export TESTENV_BINARY="$PWD/.bin/testenv/doorbuster"
rounds=0
while [ "$SECONDS" -lt "$end" ]; do
	go test ./internal/ledger ./internal/ledger/sqliteledger -run 'Machine' -rapid.checks=300 -count=1
	go test ./internal/ledger/sqliteledger -run 'Kill|DiesAtEveryStatement|TornLog' -count=1
	go test ./internal/audit -run 'RandomLives' -count=1
	go test ./internal/cases -run 'C02|C34|C66|C67|C68' -count=1
	go test ./lock/redislock -run 'StoresAgree' -rapid.checks=300 -count=1
	rounds=$((rounds + 1))
done
echo "soaked for $rounds rounds without a violation"

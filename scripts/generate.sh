#!/usr/bin/env bash
# Writes the pages of docs/ that the code can say better than a person.
set -euo pipefail
cd "$(dirname "$0")/.."
.bin/doorbuster config doc > docs/config.md
go run ./internal/obs/metricsdoc > docs/metrics.md

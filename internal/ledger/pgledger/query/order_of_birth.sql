-- Makes those who give numbers from this sequence take turns until they commit, so
-- that numbers appear in order. Nobody waits for another lock while holding this.
-- params: sequence (a number of ours)
SELECT pg_advisory_xact_lock($1)

-- Tells the other instances of journal rows, if and when the transaction commits.
-- params: channel, payloads
SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p

-- The ledger's time, in milliseconds: not that of the transaction's beginning, since
-- a transaction may have waited for a lock.
-- params: none
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint

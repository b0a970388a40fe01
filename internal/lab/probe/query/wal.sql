-- Bytes of the log that were written since its beginning; none on a standby.
-- params: none
SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 END

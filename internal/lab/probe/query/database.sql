-- What the server counts of this database, and since when it counts.
-- params: none
SELECT d.xact_commit, d.xact_rollback, d.tup_inserted, d.tup_updated, d.blks_hit, d.blks_read, d.deadlocks,
       extract(epoch FROM pg_postmaster_start_time())::text || ' ' || coalesce(d.stats_reset::text, '') AS life
FROM pg_stat_database d
WHERE d.datname = current_database()

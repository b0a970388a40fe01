-- The processes of the server.
-- params: none
SELECT array_agg(a.pid) FROM pg_stat_activity a

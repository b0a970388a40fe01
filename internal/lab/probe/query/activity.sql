-- What the other connections to this database do, and how many of them are hidden from
-- this account, which sees no more than that they are there.
-- params: none
SELECT count(*) FILTER (WHERE a.state = 'active') AS active,
       count(*) FILTER (WHERE a.state LIKE 'idle in transaction%') AS idle,
       count(*) FILTER (WHERE a.state = 'active' AND a.wait_event_type = 'Lock') AS locked,
       count(*) FILTER (WHERE a.state = 'active' AND a.wait_event_type IN ('IO', 'LWLock')) AS disk,
       count(*) AS connections,
       count(*) FILTER (WHERE a.backend_type IS NULL) AS hidden
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
  AND (a.backend_type = 'client backend' OR a.backend_type IS NULL)

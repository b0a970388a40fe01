-- What the other connections to this database do, and how many of them may not be seen.
-- params: none
SELECT count(*) FILTER (WHERE a.state = 'active') AS active,
       count(*) FILTER (WHERE a.state LIKE 'idle in transaction%') AS waiting,
       count(*) FILTER (WHERE a.state = 'active' AND a.wait_event_type = 'Lock') AS locked,
       count(*) FILTER (WHERE a.state = 'active' AND a.wait_event_type IN ('IO', 'LWLock')) AS working,
       count(*) AS connections,
       count(*) FILTER (WHERE a.state IS NULL) AS hidden
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()

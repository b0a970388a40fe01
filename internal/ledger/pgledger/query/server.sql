-- What must be known of a server before it is used.
-- params: none
SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'), coalesce(current_schema(), '')

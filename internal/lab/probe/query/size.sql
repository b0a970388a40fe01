-- Bytes of the files of this database.
-- params: none
SELECT pg_database_size(current_database())::float8

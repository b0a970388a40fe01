-- The gate's version.
-- params: none
SELECT version FROM gate WHERE one = 1

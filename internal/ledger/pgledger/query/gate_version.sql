-- The gate's version.
-- params: none
SELECT g.version FROM gate g WHERE g.one = 1

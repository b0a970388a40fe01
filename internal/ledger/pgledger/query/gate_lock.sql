-- Keeps every other writer away from the gate, and returns its version as the writer
-- before has left it.
-- params: none
SELECT g.version FROM gate g WHERE g.one = 1 FOR NO KEY UPDATE

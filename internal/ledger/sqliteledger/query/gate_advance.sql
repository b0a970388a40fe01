-- Raises the gate's version, if it is what the writer believes.
-- params: version, from
UPDATE gate SET version = ? WHERE one = 1 AND version = ?

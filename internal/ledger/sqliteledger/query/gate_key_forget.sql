-- Deletes a key of the gate.
-- params: id
DELETE FROM gate_keys WHERE id = ?

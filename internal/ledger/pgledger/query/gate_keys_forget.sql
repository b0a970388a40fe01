-- Deletes keys of the gate.
-- params: ids
DELETE FROM gate_keys WHERE id = ANY ($1::bigint[])

-- Moves an order on, if it is in the state that the writer believes.
-- params: state, version, expires_at, ended_at, payment_id, id, from_state
UPDATE orders SET state = ?, version = ?, expires_at = ?, ended_at = ?, payment_id = ? WHERE id = ? AND state = ?

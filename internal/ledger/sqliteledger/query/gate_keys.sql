-- Every key of the gate, newest first.
-- params: none
SELECT id, secret, created_at, retired_at FROM gate_keys ORDER BY id DESC

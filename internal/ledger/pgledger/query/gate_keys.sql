-- Every key of the gate, newest first.
-- params: none
SELECT k.id, k.secret, k.created_at, k.retired_at FROM gate_keys k ORDER BY k.id DESC

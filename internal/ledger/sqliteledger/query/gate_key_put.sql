-- Enters a key of the gate, or when a known one was retired.
-- params: id, secret, created_at, retired_at
INSERT INTO gate_keys (id, secret, created_at, retired_at) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET retired_at = excluded.retired_at WHERE secret = excluded.secret

-- Enters a listing in the place of any other of its subject.
-- params: kind, value, effect, reason, author, created_at, expires_at, level, dropped, version
INSERT INTO gate_listings (kind, value, effect, reason, author, created_at, expires_at, level, dropped, version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, value) DO UPDATE SET effect = excluded.effect, reason = excluded.reason, author = excluded.author,
    created_at = excluded.created_at, expires_at = excluded.expires_at, level = excluded.level, dropped = excluded.dropped,
    version = excluded.version

-- A listing of the gate (l), as decodeListing reads it.
-- params: none
l.kind, l.value, l.effect, l.reason, l.author, l.created_at, l.expires_at, l.level, l.dropped::int::bigint, l.version

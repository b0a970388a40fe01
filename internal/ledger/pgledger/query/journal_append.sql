-- Appends rows to a sale's journal.
-- params: sale, seqs, ats, kinds, order_ids (the zero id for none), bodies, hashes
INSERT INTO journal (sale, seq, at, kind, order_id, body, hash)
SELECT $1, u.seq, u.at, u.kind, nullif(u.order_id, {none}), u.body, u.hash
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::uuid[], $6::bytea[], $7::bytea[])
    AS u (seq, at, kind, order_id, body, hash)

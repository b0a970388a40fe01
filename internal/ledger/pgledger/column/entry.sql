-- A row of the journal (j), as decodeEntry reads it.
-- params: none
j.seq, j.at, j.kind, j.order_id, j.body, j.hash

-- Appends a row to a sale's journal.
-- params: sale, seq, at, kind, order_id, body, hash
INSERT INTO journal (sale, seq, at, kind, order_id, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)

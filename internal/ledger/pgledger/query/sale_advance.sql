-- Moves the end of a sale's journal, if it is where the writer believes.
-- params: sale, from_seq, seq, head
UPDATE sales SET seq = $3, head = $4 WHERE number = $1 AND seq = $2

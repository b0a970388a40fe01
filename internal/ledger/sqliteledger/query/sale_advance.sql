-- Moves the end of a sale's journal, if it is where the writer believes.
-- params: seq, head, sale, from_seq
UPDATE sales SET seq = ?, head = ? WHERE number = ? AND seq = ?

-- Enters new terms of a sale.
-- params: sale, number, currency, hold_ms
INSERT INTO terms (sale, number, currency, hold_ms) VALUES ($1, $2, $3, $4)

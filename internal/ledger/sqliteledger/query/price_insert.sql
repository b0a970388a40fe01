-- Enters the price of an item under new terms.
-- params: sale, terms, position, price
INSERT INTO prices (sale, terms, position, price) VALUES (?, ?, ?, ?)

-- Adds to what an item has sold; the table holds 0 <= sold <= stock.
-- params: units, sale, position
UPDATE items SET sold = sold + ? WHERE sale = ? AND position = ?

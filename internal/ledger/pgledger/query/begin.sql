-- Begins a write transaction.
-- params: none
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE

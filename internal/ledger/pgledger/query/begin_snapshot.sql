-- Begins a transaction that sees one instant, fixed by its first statement.
-- params: none
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

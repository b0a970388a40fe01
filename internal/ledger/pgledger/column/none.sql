-- The id that stands for no id in a list of them; a table holds NULL instead.
-- params: none
'00000000-0000-0000-0000-000000000000'::uuid

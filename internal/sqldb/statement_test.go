package sqldb_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sqldb"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	got, err := sqldb.Statements(fstest.MapFS{
		"find.sql":  {Data: []byte("-- Finds one,\n-- by two things.\n-- params: a, b (the other)\nSELECT 1 -- not a parameter list: x\nWHERE a = ? AND b = ?;\n")},
		"page.sql":  {Data: []byte("-- A page.\n-- params: a, b\nSELECT ?2 WHERE ?1 = '' OR x = ?1\n")},
		"pg.sql":    {Data: []byte("-- By number.\n-- params: a, b\nSELECT $2 FROM unnest($1::text[]) WHERE x = $2\n")},
		"none.sql":  {Data: []byte("-- Nothing to give.\n-- params: none\nSELECT 1\n")},
		"notes.txt": {Data: []byte("ignored")},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]sqldb.Statement{
		"find": {Name: "find", Text: "SELECT 1 -- not a parameter list: x\nWHERE a = ? AND b = ?;", Params: []string{"a", "b (the other)"}},
		"page": {Name: "page", Text: "SELECT ?2 WHERE ?1 = '' OR x = ?1", Params: []string{"a", "b"}},
		"pg":   {Name: "pg", Text: "SELECT $2 FROM unnest($1::text[]) WHERE x = $2", Params: []string{"a", "b"}},
		"none": {Name: "none", Text: "SELECT 1"},
	}, got)
}

func TestStatementsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no header":           "SELECT 1",
		"no description":      "-- params: none\nSELECT 1",
		"no parameters named": "-- Finds.\nSELECT 1",
		"one too few":         "-- Finds.\n-- params: a\nSELECT ?, ?",
		"one too many":        "-- Finds.\n-- params: a, b\nSELECT ?",
		"a number left out":   "-- Finds.\n-- params: a, b\nSELECT ?1, ?3",
		"a dollar too many":   "-- Finds.\n-- params: a\nSELECT $1, $2",
		"two statements":      "-- Finds.\n-- params: none\nSELECT 1; SELECT 2",
	} {
		_, err := sqldb.Statements(fstest.MapFS{"x.sql": {Data: []byte(text)}})
		require.ErrorContains(t, err, "statement x", name)
	}
}

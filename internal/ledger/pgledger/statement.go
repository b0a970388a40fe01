package pgledger

import (
	"embed"
	"errors"
	"io/fs"
	"strings"

	"github.com/doorbuster/doorbuster/internal/sqldb"
)

var (
	//go:embed query/*.sql
	queryFiles embed.FS
	//go:embed column/*.sql
	columnFiles embed.FS
)

// loadStatements reads the statements and puts the columns in, where a name in
// braces stands for a set of them.
func loadStatements() (map[string]string, error) {
	queries, err := statementsIn(queryFiles, "query")
	columns, columnErr := statementsIn(columnFiles, "column")
	if err = errors.Join(err, columnErr); err != nil {
		return nil, err
	}
	sets := make([]string, 0, 2*len(columns))
	for name, set := range columns {
		sets = append(sets, "{"+name+"}", set.Text)
	}
	fill := strings.NewReplacer(sets...)
	out := make(map[string]string, len(queries))
	for name, s := range queries {
		out[name] = fill.Replace(s.Text)
	}
	return out, nil
}

func statementsIn(files embed.FS, dir string) (map[string]sqldb.Statement, error) {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		return nil, err
	}
	return sqldb.Statements(sub)
}

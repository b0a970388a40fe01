package sqliteledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/doorbuster/doorbuster/internal/sqldb"
)

//go:embed migration/*.sql
var migrationFiles embed.FS

func schema() (sqldb.Schema, error) {
	files, err := fs.Sub(migrationFiles, "migration")
	return sqldb.Schema{
		Dialect: goose.DialectSQLite3, Files: files,
		Versioned: "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'goose_db_version'",
	}, err
}

// Migrate brings the ledger at path up to date, creates it where there is none,
// and returns what it applied. It takes the lock of Lock meanwhile, since no
// server may serve a schema that is changing under it.
func Migrate(ctx context.Context, path string) (applied []sqldb.Migration, err error) {
	lock, err := Lock(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return migrate(ctx, path)
}

func migrate(ctx context.Context, path string) (applied []sqldb.Migration, err error) {
	path, err = prepare(path)
	if err != nil {
		return nil, err
	}
	if err = create(path); err != nil {
		return nil, fmt.Errorf("sqliteledger: %w", err)
	}
	limit := time.NewTimer(busyTimeout)
	defer limit.Stop()
	for {
		err = onDB(writerDSN(path), func(s sqldb.Schema, db *sql.DB) (err error) {
			applied, err = s.Up(ctx, db)
			return err
		})
		// A new file that somebody else is about to give its log is busy at once, whatever
		// its timeout says. Up may be repeated.
		if !sqldb.IsBusy(err) || !again(ctx, limit.C) {
			return applied, err
		}
	}
}

// again waits for a moment; it is false when it has been long enough.
func again(ctx context.Context, limit <-chan time.Time) bool {
	moment := time.NewTimer(10 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-moment.C:
		return true
	case <-limit:
		return false
	case <-ctx.Done():
		return false
	}
}

// create makes an empty file where there is none, so that it is its owner's alone
// from the start: it will hold the keys of sales. An existing file is not even
// opened, since to close it again could cost SQLite its locks.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode) //nolint:gosec // the operator names the file
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// MigrationStatus returns every migration that this binary knows, in order,
// applied or pending. It does not write; where there is no ledger at path all
// are pending.
func MigrationStatus(ctx context.Context, path string) (all []sqldb.Migration, err error) {
	path, err = prepare(path)
	if err != nil {
		return nil, err
	}
	from := readerDSN(path)
	switch err = found(path); {
	case errors.Is(err, fs.ErrNotExist):
		from = ":memory:"
	case err != nil:
		return nil, err
	}
	err = onDB(from, func(s sqldb.Schema, db *sql.DB) (err error) {
		all, err = s.Status(ctx, db)
		return err
	})
	return all, err
}

// checkSchema refuses a file that is missing or of another version.
func checkSchema(ctx context.Context, path string) error {
	path, err := prepare(path)
	if err != nil {
		return err
	}
	if err := found(path); err != nil {
		return err
	}
	return onDB(readerDSN(path), func(s sqldb.Schema, db *sql.DB) error { return s.Check(ctx, db) })
}

// onDB runs fn on one connection of database/sql, which migrations need.
func onDB(dsn string, fn func(sqldb.Schema, *sql.DB) error) (err error) {
	s, err := schema()
	if err != nil {
		return err
	}
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return fmt.Errorf("sqliteledger: open: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := fn(s, db); err != nil {
		return hinted(err)
	}
	return nil
}

// hinted tells a person what to do about a schema that does not fit.
func hinted(err error) error {
	if told := sqldb.Explain(err); told != nil {
		return told
	}
	return fmt.Errorf("sqliteledger: %w", err)
}

package pgledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/doorbuster/doorbuster/internal/sqldb"
)

//go:embed migration/*.sql
var migrationFiles embed.FS

func schema() (sqldb.Schema, error) {
	files, err := fs.Sub(migrationFiles, "migration")
	return sqldb.Schema{
		Dialect: goose.DialectPostgres, Files: files,
		Versioned: "SELECT count(to_regclass('goose_db_version'))",
	}, err
}

// Migrate brings the schema of the ledger at a URL up to date and returns what it
// applied. Where several processes do so at once, one works and the others wait
// for it.
func Migrate(ctx context.Context, url string) ([]sqldb.Migration, error) {
	_, cfg, err := configure(Options{URL: url})
	if err != nil {
		return nil, err
	}
	return migrate(ctx, cfg.ConnConfig)
}

func migrate(ctx context.Context, cfg *pgx.ConnConfig) (applied []sqldb.Migration, err error) {
	err = onDB(ctx, cfg, func(s sqldb.Schema, db *sql.DB) (err error) {
		if err = s.Check(ctx, db); !errors.Is(err, sqldb.ErrSchemaOlder) {
			return err
		}
		// The lock ends with its connection, whatever becomes of this process.
		lock, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
		if _, err = lock.ExecContext(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
			return err
		}
		applied, err = s.Up(ctx, db)
		return err
	})
	return applied, err
}

// MigrationStatus returns every migration that this binary knows, in order,
// applied or pending. It does not write.
func MigrationStatus(ctx context.Context, url string) (all []sqldb.Migration, err error) {
	_, cfg, err := configure(Options{URL: url})
	if err != nil {
		return nil, err
	}
	err = onDB(ctx, cfg.ConnConfig, func(s sqldb.Schema, db *sql.DB) (err error) {
		all, err = s.Status(ctx, db)
		return err
	})
	return all, err
}

// checkSchema refuses a database of another version.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) (err error) {
	s, err := schema()
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { err = errors.Join(err, db.Close()) }() // the pool stays open
	if err := s.Check(ctx, db); err != nil {
		return hinted(err)
	}
	return nil
}

// onDB runs fn on database/sql, which migrations need, on connections that may take
// their time.
func onDB(ctx context.Context, cfg *pgx.ConnConfig, fn func(sqldb.Schema, *sql.DB) error) (err error) {
	s, err := schema()
	if err != nil {
		return err
	}
	cfg = cfg.Copy()
	for _, timeout := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		cfg.RuntimeParams[timeout] = "0"
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(2) // one holds the lock while the other works
	if err := db.PingContext(ctx); err != nil {
		return unreachable(err)
	}
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
	if _, lost := errors.AsType[*pgconn.ConnectError](err); lost {
		return unreachable(err)
	}
	return fmt.Errorf("pgledger: %w", err)
}

package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Schema is the list of migrations that a binary knows, for one kind of database.
type Schema struct {
	// Dialect is the database's, as goose names it.
	Dialect goose.Dialect
	// Files holds the migrations at its root, named like 00001_ledger.sql.
	Files fs.FS
	// Versioned is a query that returns one number: whether the version table,
	// goose_db_version, exists. It must not write.
	Versioned string
}

// Migration is one step of a schema.
type Migration struct {
	Version   int64
	Name      string    // its file
	AppliedAt time.Time // to the second; zero while it is pending
}

// The two ways in which a database and a binary may not fit.
var (
	ErrSchemaOlder = errors.New("the database has an older schema than this binary needs")
	ErrSchemaNewer = errors.New("the database has a newer schema than this binary knows")
)

// MismatchError says that a database is not at the version which the binary was
// built for. It wraps ErrSchemaOlder or ErrSchemaNewer.
type MismatchError struct {
	Have int64 // the database's version; 0 for one without any schema
	Want int64 // the binary's
}

// Error names both versions.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: version %d, not %d", e.Unwrap(), e.Have, e.Want)
}

// Unwrap returns which way the two differ.
func (e *MismatchError) Unwrap() error {
	if e.Have > e.Want {
		return ErrSchemaNewer
	}
	return ErrSchemaOlder
}

// Check returns a *MismatchError unless the database is at exactly the schema's
// last version. It does not write.
func (s Schema) Check(ctx context.Context, db *sql.DB) error {
	p, err := s.provider(db)
	if err != nil {
		return err
	}
	return s.check(ctx, db, last(p))
}

func (s Schema) check(ctx context.Context, db *sql.DB, want int64) error {
	have, err := s.version(ctx, db)
	if err != nil {
		return err
	}
	if have != want {
		return &MismatchError{Have: have, Want: want}
	}
	return nil
}

// Up applies what is pending and returns it. A newer database is refused with a
// *MismatchError. Where another process applies the same migrations at the same
// time, one of the two applies them and both succeed.
func (s Schema) Up(ctx context.Context, db *sql.DB) ([]Migration, error) {
	p, err := s.provider(db)
	if err != nil {
		return nil, err
	}
	for at := int64(-1); ; {
		if err = s.check(ctx, db, last(p)); err == nil {
			return nil, nil
		}
		older, ok := errors.AsType[*MismatchError](err)
		if !ok || !errors.Is(err, ErrSchemaOlder) {
			return nil, err
		}
		results, failed := p.Up(ctx)
		if failed == nil {
			done := make([]Migration, 0, len(results))
			for _, r := range results {
				done = append(done, Migration{Version: r.Source.Version, Name: path.Base(r.Source.Path)})
			}
			return s.stamp(ctx, db, done)
		}
		// Where somebody else was faster, the version moves on, and the rest is worth
		// another try.
		if at == older.Have {
			return nil, fmt.Errorf("migrate: %w", failed)
		}
		at = older.Have
	}
}

// Status returns every migration that the binary knows, in order, applied or
// pending. A newer database is refused with a *MismatchError. It does not write.
func (s Schema) Status(ctx context.Context, db *sql.DB) ([]Migration, error) {
	p, err := s.provider(db)
	if err != nil {
		return nil, err
	}
	if err = s.check(ctx, db, last(p)); err != nil && !errors.Is(err, ErrSchemaOlder) {
		return nil, err
	}
	sources := p.ListSources()
	all := make([]Migration, 0, len(sources))
	for _, src := range sources {
		all = append(all, Migration{Version: src.Version, Name: path.Base(src.Path)})
	}
	return s.stamp(ctx, db, all)
}

// stamp fills in when each migration was applied.
func (s Schema) stamp(ctx context.Context, db *sql.DB, ms []Migration) ([]Migration, error) {
	if found, err := s.versioned(ctx, db); err != nil || !found {
		return ms, err
	}
	rows, err := db.QueryContext(ctx, "SELECT version_id, tstamp FROM goose_db_version WHERE is_applied")
	if err != nil {
		return nil, fmt.Errorf("read the schema's history: %w", err)
	}
	defer func() { _ = rows.Close() }()
	at := make(map[int64]time.Time)
	for rows.Next() {
		var version int64
		var when time.Time
		if err := rows.Scan(&version, &when); err != nil {
			return nil, fmt.Errorf("read the schema's history: %w", err)
		}
		at[version] = when.UTC()
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the schema's history: %w", err)
	}
	for i := range ms {
		ms[i].AppliedAt = at[ms[i].Version]
	}
	return ms, nil
}

// version returns the database's version, 0 for one without any schema. A
// missing table and a failed query are told apart: a database that cannot be
// read is not a fresh one.
func (s Schema) version(ctx context.Context, db *sql.DB) (int64, error) {
	if found, err := s.versioned(ctx, db); err != nil || !found {
		return 0, err
	}
	var v int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&v); err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	return v, nil
}

func (s Schema) versioned(ctx context.Context, db *sql.DB) (bool, error) {
	var n int64
	if err := db.QueryRowContext(ctx, s.Versioned).Scan(&n); err != nil {
		return false, fmt.Errorf("look for the schema's version: %w", err)
	}
	return n != 0, nil
}

func (s Schema) provider(db *sql.DB) (*goose.Provider, error) {
	p, err := goose.NewProvider(s.Dialect, db, s.Files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, nil
}

// last returns the version that the binary knows. A provider is never empty.
func last(p *goose.Provider) int64 {
	sources := p.ListSources()
	return sources[len(sources)-1].Version
}

// Explain returns what a person can do about a schema that does not fit; nil for
// any other error.
func Explain(err error) *sale.Error {
	switch {
	case errors.Is(err, ErrSchemaNewer):
		return &sale.Error{
			Code: sale.CodeUnavailable, Message: "the ledger was written by a newer doorbuster",
			Hint: "run the newer version, or restore a backup from before its first start", Err: err,
		}
	case errors.Is(err, ErrSchemaOlder):
		return &sale.Error{
			Code: sale.CodeUnavailable, Message: "the ledger's schema is older than this doorbuster needs",
			Hint: "make a backup, then run: doorbuster migrate up", Err: err,
		}
	}
	return nil
}

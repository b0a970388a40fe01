package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/ledger/pgledger"
	"github.com/doorbuster/doorbuster/internal/ledger/sqliteledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

// Access says what a ledger is opened for.
type Access string

// The kinds of access.
const (
	// Look reads, also while a server runs.
	Look Access = "look"
	// Touch makes small writes, such as a new API key, also while a server runs.
	Touch Access = "touch"
	// Own is for serving and for repairs. It keeps every other server away from a
	// ledger in a file; on PostgreSQL several work side by side.
	Own Access = "own"
)

// Book is an open ledger. Close gives up the lock too.
type Book struct {
	ledger.Ledger
	// Store is what lies under the ledger, for repairs.
	Store ledger.Store
	lock  *sqliteledger.FileLock
}

// Close closes the ledger.
func (b *Book) Close() error {
	err := b.Ledger.Close()
	if b.lock != nil {
		err = errors.Join(err, b.lock.Unlock())
	}
	return err
}

const (
	sqliteScheme = "sqlite:"
	folderMode   = 0o700
)

// OpenLedger opens the ledger that a URL names. Own creates its schema, and its
// file, or brings it up to date; the others refuse one that is missing or of
// another version. Rows that a listing had to leave out are logged.
func OpenLedger(ctx context.Context, url string, access Access, log *slog.Logger) (*Book, error) {
	onCorrupt := func(err error) { log.Error("a row of the ledger cannot be read", slog.Any("error", err)) }
	if onPostgres(url) {
		store, err := pgledger.Open(ctx, pgledger.Options{URL: url, ReadOnly: access == Look, Migrate: access == Own, OnCorrupt: onCorrupt})
		if err != nil {
			return nil, err
		}
		return &Book{Ledger: ledger.New(store), Store: store}, nil
	}
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	opts := sqliteledger.Options{Path: path, ReadOnly: access == Look, Migrate: access == Own, OnCorrupt: onCorrupt}
	if access != Own {
		store, openErr := sqliteledger.Open(ctx, opts)
		if openErr != nil {
			return nil, openErr
		}
		return &Book{Ledger: ledger.New(store), Store: store}, nil
	}
	if err = os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return nil, err
	}
	lock, err := sqliteledger.Lock(path)
	if err != nil {
		return nil, err
	}
	store, err := sqliteledger.Open(ctx, opts)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return &Book{Ledger: ledger.New(store), Store: store, lock: lock}, nil
}

// MigrateLedger brings the ledger that a URL names up to date, creating it if it
// is missing, and returns what it applied. No server may run meanwhile.
func MigrateLedger(ctx context.Context, url string) ([]sqldb.Migration, error) {
	if onPostgres(url) {
		return pgledger.Migrate(ctx, url)
	}
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return nil, err
	}
	return sqliteledger.Migrate(ctx, path)
}

// LedgerMigrations returns every migration that this binary knows, applied or
// pending. It writes nothing.
func LedgerMigrations(ctx context.Context, url string) ([]sqldb.Migration, error) {
	if onPostgres(url) {
		return pgledger.MigrationStatus(ctx, url)
	}
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return sqliteledger.MigrationStatus(ctx, path)
}

func onPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

func sqlitePath(url string) (string, error) {
	path, ok := strings.CutPrefix(url, sqliteScheme)
	if !ok || path == "" {
		return "", sale.Invalid("ledger.url", "this is no ledger that this version knows", "use sqlite:PATH, or postgres://USER:PASSWORD@HOST/DATABASE")
	}
	return path, nil
}

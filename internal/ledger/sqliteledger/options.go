package sqliteledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

//go:embed query/*.sql
var queryFiles embed.FS

// Options says which file is opened, and how.
type Options struct {
	// Path is the database file. Beside it live <path>-wal and <path>-shm, which
	// are part of it, and the lock file that Lock makes.
	Path string
	// Clock is the ledger's time; nil is the machine's. The store keeps
	// milliseconds of it, in UTC.
	Clock func() time.Time
	// ReadOnly opens for looking only: Update is refused, the file is not
	// written. A server may work on the same file at the same time.
	ReadOnly bool
	// ReadConns is the most reads at once, 0 is 4. More wait their turn.
	ReadConns int
	// Migrate creates the file, readable by its owner alone, where there is
	// none, and brings its schema up to date. Without it both are refused.
	Migrate bool
	// OnCorrupt is told of each row that a list left out because it cannot be
	// read; nil tells nobody. It may be called from many goroutines.
	OnCorrupt func(error)
	// BeforeStatement is asked before each statement of a write transaction, by
	// the statement's name, "begin" and "commit" among them, and after a commit
	// with "committed". An error fails the statement and undoes the transaction;
	// after "committed" it only fails the call. It exists for tests that crash a
	// ledger between any two statements; nil costs nothing.
	BeforeStatement func(statement string) error
}

const (
	defaultReadConns = 4
	// busyTimeout is how long a statement waits for another process's lock.
	busyTimeout = 5 * time.Second
	// writerCache lets the writer keep the pages of a crowd's indexes, in KiB.
	writerCache = 64 << 10
	readerCache = 8 << 10
	// checkpointPages is the length of the write-ahead log at which the writer
	// copies it into the file: rare enough that a page which every batch writes
	// is copied once for many, often enough that a commit never waits long.
	checkpointPages = 4000
	// logLimit is what the log is cut to once it is copied, in bytes.
	logLimit = 64 << 20

	fileMode = 0o600
)

// Open opens a ledger. A database of another schema version is refused with an
// error that wraps sqldb.ErrSchemaNewer or sqldb.ErrSchemaOlder and carries a
// hint; so is one that does not exist, with fs.ErrNotExist, unless
// Options.Migrate creates it.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.ReadOnly && o.Migrate {
		return nil, errors.New("sqliteledger: a ledger opened for reading cannot be migrated")
	}
	statements, err := loadStatements()
	if err != nil {
		return nil, err
	}
	if o.Path, err = prepare(o.Path); err != nil {
		return nil, err
	}
	if o.Migrate {
		_, err = migrate(ctx, o.Path)
	} else {
		err = checkSchema(ctx, o.Path)
	}
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now //nolint:forbidigo // the ledger's clock is the machine's
	}
	if o.ReadConns <= 0 {
		o.ReadConns = defaultReadConns
	}
	if o.OnCorrupt == nil {
		o.OnCorrupt = func(error) {}
	}
	s := &Store{opts: o}
	s.readers = newPool(o.ReadConns, func(ctx context.Context) (*conn, error) {
		return open(ctx, readerDSN(o.Path), statements)
	})
	s.writer = newPool(1, func(ctx context.Context) (*conn, error) {
		c, err := open(ctx, writerDSN(o.Path), statements)
		if err == nil {
			c.before = o.BeforeStatement
		}
		return c, err
	})
	if err := s.warm(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// warm opens the first connection of each kind, so that what is wrong with the
// file is found now.
func (s *Store) warm(ctx context.Context) error {
	nothing := func(*conn) error { return nil }
	if !s.opts.ReadOnly {
		if err := s.writer.with(ctx, nothing); err != nil {
			return err
		}
	}
	return s.readers.with(ctx, nothing)
}

func loadStatements() (map[string]sqldb.Statement, error) {
	dir, err := fs.Sub(queryFiles, "query")
	if err != nil {
		return nil, err
	}
	return sqldb.Statements(dir)
}

// writerDSN opens for writing. Each commit is synced before it returns.
func writerDSN(path string) string {
	return dsn(path, "rw", []string{
		pragma("busy_timeout", busyTimeout.Milliseconds()),
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)",
		pragma("cache_size", -writerCache), pragma("wal_autocheckpoint", checkpointPages), pragma("journal_size_limit", logLimit),
	})
}

// readerDSN opens for reading.
func readerDSN(path string) string {
	return dsn(path, "ro", []string{
		pragma("busy_timeout", busyTimeout.Milliseconds()),
		"query_only(1)", "temp_store(MEMORY)", pragma("cache_size", -readerCache),
	})
}

func pragma(name string, value int64) string { return name + "(" + strconv.FormatInt(value, 10) + ")" }

// dsn names the file as a URI, so that no character of its path is special.
func dsn(path, mode string, pragmas []string) string {
	query := url.Values{
		"mode": {mode}, "_pragma": pragmas, "_txlock": {"immediate"},
		"_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"},
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}
	return u.String()
}

// prepare makes the process and the path ready for a connection, and returns
// the path made absolute. The switches hold for the process: fdatasync is as
// durable as fsync and spares the journal of file times; locks of open files,
// where the system has them, are not lost when somebody else in the process
// opens and closes the same file.
func prepare(path string) (string, error) {
	if path == "" {
		return "", errors.New("sqliteledger: the path of the database is empty")
	}
	_, _ = sqlite.Fdatasync(true)
	_, _ = sqlite.OFDLocking(true)
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqliteledger: %w", err)
	}
	return abs, nil
}

// found refuses a path where no database is.
func found(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &sale.Error{
			Code: sale.CodeUnavailable, Message: "there is no ledger at " + path,
			Hint: "check ledger.url, or create it with: doorbuster migrate up", Err: err,
		}
	}
	if err != nil {
		return fmt.Errorf("sqliteledger: %w", err)
	}
	return nil
}

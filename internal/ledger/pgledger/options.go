package pgledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

// Options says which database is opened, and how. Zero values are the defaults.
type Options struct {
	// URL is postgres://user:password@host:port/database, with the parameters of
	// libpq. It must lead to the server itself or to a pooler of sessions, not of
	// transactions.
	URL string
	// ApplicationName is what the server shows of this process; empty is what the
	// URL says, or else doorbuster.
	ApplicationName string
	// MaxConns is the most connections at once, at least 2; 0 is pool_max_conns of
	// the URL, or else 8. A quarter of them, at least one, is kept from writers, so
	// that reads never wait for a crowd. One more listens for what others commit.
	MaxConns int
	// ConnectTimeout is how long a new connection may take; 0 is 5 s.
	ConnectTimeout time.Duration
	// StatementTimeout ends a statement; 0 is 10 s.
	StatementTimeout time.Duration
	// LockTimeout ends the wait for a lock; 0 is 5 s.
	LockTimeout time.Duration
	// IdleTimeout ends a write transaction that does nothing while it keeps others
	// waiting, as that of a process which has stopped; 0 is 2 s. One of ours thinks for
	// milliseconds, or loads a lane for half a second; and nobody can buy meanwhile.
	IdleTimeout time.Duration
	// ReadOnly opens for looking only: Update is refused.
	ReadOnly bool
	// Migrate brings the schema up to date. Without it another version is refused.
	Migrate bool
	// OnCorrupt is told of each row that a list left out because it cannot be
	// read; nil tells nobody. It may be called from many goroutines.
	OnCorrupt func(error)
	// Clock replaces the server's clock as the ledger's time, for tests; nil is the
	// server's.
	Clock func() time.Time
	// BeforeStatement is asked before each statement of a write transaction, by
	// the statement's name, "begin" and "commit" among them, and after a commit
	// with "committed". An error fails the statement and undoes the transaction;
	// after "committed" it only fails the call. It exists for tests that crash a
	// ledger between any two statements; nil costs nothing.
	BeforeStatement func(statement string) error
}

const (
	defaultName             = "doorbuster"
	maxName                 = 63 // bytes that the server takes
	defaultMaxConns         = 8
	minConns                = 2
	defaultConnectTimeout   = 5 * time.Second
	defaultStatementTimeout = 10 * time.Second
	defaultLockTimeout      = 5 * time.Second
	defaultIdleTimeout      = 2 * time.Second
	// snapshotIdle is how long the reader of a snapshot, who keeps nobody waiting,
	// may think between two statements.
	snapshotIdle = time.Hour

	// oldestServer is PostgreSQL 13, as the server numbers itself.
	oldestServer = 130_000
)

// Open opens a ledger. A database of another schema version is refused with an
// error that wraps sqldb.ErrSchemaNewer or sqldb.ErrSchemaOlder and carries a
// hint, unless Options.Migrate helps; so is a server that cannot be reached, is
// older than PostgreSQL 13, or does not store UTF-8. No error tells the password.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.ReadOnly && o.Migrate {
		return nil, errors.New("pgledger: a ledger opened for reading cannot be migrated")
	}
	statements, err := loadStatements()
	if err != nil {
		return nil, err
	}
	o, cfg, err := configure(o)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, unreachable(err)
	}
	s := &Store{
		opts: o, statements: statements, pool: pool, connect: cfg.ConnConfig.Copy(), origin: rand.Text(),
		turns: make(chan struct{}, o.MaxConns-max(1, o.MaxConns/4)), snapshots: make(chan struct{}, max(1, o.MaxConns/4)),
		closed: make(chan struct{}),
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare asks the server what it can do, and whether its schema fits.
func (s *Store) prepare(ctx context.Context) error {
	if err := s.inspect(ctx); err != nil {
		if _, lost := errors.AsType[*pgconn.ConnectError](err); lost {
			return unreachable(err)
		}
		return err
	}
	err := checkSchema(ctx, s.pool)
	if s.opts.Migrate && errors.Is(err, sqldb.ErrSchemaOlder) {
		_, err = migrate(ctx, s.connect)
	}
	return err
}

// configure fills the defaults in and says how to connect.
func configure(o Options) (Options, *pgxpool.Config, error) {
	setDefault(&o.ConnectTimeout, defaultConnectTimeout)
	setDefault(&o.StatementTimeout, defaultStatementTimeout)
	setDefault(&o.LockTimeout, defaultLockTimeout)
	setDefault(&o.IdleTimeout, defaultIdleTimeout)
	if o.OnCorrupt == nil {
		o.OnCorrupt = func(error) {}
	}
	cfg, err := parse(o.URL)
	if err != nil {
		return o, nil, err
	}
	if strings.Contains(o.URL, "pool_max_conns=") { // without it the driver has a default of its own
		setDefault(&o.MaxConns, int(cfg.MaxConns))
	}
	setDefault(&o.MaxConns, defaultMaxConns)
	if o.MaxConns < minConns {
		return o, nil, fmt.Errorf("pgledger: a ledger needs at least %d connections, not %d", minConns, o.MaxConns)
	}
	cfg.MaxConns = int32(o.MaxConns) //nolint:gosec // a number of connections
	conn := cfg.ConnConfig
	conn.ConnectTimeout = o.ConnectTimeout
	conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement // rows are read in the form that it asks for
	set := conn.RuntimeParams
	if o.ApplicationName != "" || set["application_name"] == "" {
		setDefault(&o.ApplicationName, defaultName)
		set["application_name"] = o.ApplicationName
	}
	set["statement_timeout"] = millis(o.StatementTimeout)
	set["lock_timeout"] = millis(o.LockTimeout)
	set["idle_in_transaction_session_timeout"] = millis(o.IdleTimeout)
	set["timezone"] = "UTC"
	// Every statement has an index to walk, in the order that its page needs. A plan
	// made while a table was empty must not go on to read or to sort all of it when
	// it holds a crowd; and compiling a statement takes longer than any of ours runs.
	set["enable_seqscan"] = "off"
	set["enable_sort"] = "off" // a page of the newest sorts ties only, which is another kind
	set["jit"] = "off"
	if o.ReadOnly {
		set["default_transaction_read_only"] = "on"
	}
	// What was acknowledged must be on the disk, whatever the server's default is
	// for others.
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		useArrays(c)
		_, err := c.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
		return err
	}
	return o, cfg, nil
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

// parse reads a URL. Its errors are made of nothing that could hold the password.
func parse(raw string) (*pgxpool.Config, error) {
	bad := sale.Invalid("ledger.url", "this is not the URL of a PostgreSQL database", "use postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full")
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return nil, bad
	}
	cfg, err := pgxpool.ParseConfig(raw)
	if err == nil {
		return cfg, nil
	}
	// What it says of the same URL without the password may be shown.
	u, err := url.Parse(raw)
	if err != nil {
		return nil, bad
	}
	query := u.Query()
	query.Del("password")
	query.Del("sslpassword")
	u.RawQuery = query.Encode()
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	if _, err := pgxpool.ParseConfig(u.String()); err != nil {
		if _, cause, found := strings.Cut(err.Error(), "`: "); found {
			bad.Message += ": " + cause
		}
	}
	return nil, bad
}

// unreachable tells a person who starts something that a server does not answer, and
// what it was that it, or the network, said.
func unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	message := "the ledger's PostgreSQL cannot be reached"
	if said, is := errors.AsType[*pgconn.PgError](err); is {
		message += ": " + said.Message
	} else if failed, is := errors.AsType[*net.OpError](err); is {
		message += ": " + failed.Error()
	}
	return &sale.Error{Code: sale.CodeUnavailable, Message: message, Hint: "check that the server runs and that ledger.url is right", Err: err}
}

// inspect asks the server what it can do.
func (s *Store) inspect(ctx context.Context) error {
	var version int64
	var encoding, schema string
	err := s.query(ctx, "server", nil, func(row *row) error {
		version, encoding, schema = row.int(), row.text(), row.text()
		return row.done()
	})
	refuse := func(message, hint string) error {
		return &sale.Error{Code: sale.CodeUnavailable, Message: message, Hint: hint}
	}
	switch {
	case err != nil:
		return err
	case version < oldestServer:
		return refuse("the ledger's PostgreSQL is older than 13", "use PostgreSQL 13 or newer")
	case encoding != "UTF8":
		return refuse("the ledger's database stores "+encoding+", not UTF8", "create it with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0")
	case schema == "":
		return refuse("the ledger's user has no schema to work in", "grant it one that is in its search_path")
	}
	s.channel = defaultName + "." + schema
	if len(s.channel) > maxName {
		hash := sha256.Sum256([]byte(schema))
		s.channel = defaultName + "." + hex.EncodeToString(hash[:16])
	}
	return nil
}

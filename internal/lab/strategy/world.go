package strategy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	// patience is how long a buyer waits for his turn before he is told busy.
	patience = 2 * time.Second
	// openIn bounds connecting, so that a shop that cannot open says why.
	openIn = 20 * time.Second
	// workTime bounds what is done once it is his turn.
	workTime = 10 * time.Second
	// connections to PostgreSQL of one process. A database of some size accepts a few
	// hundred, from everybody who uses it.
	connections = 16
)

// Place says where a run takes place.
type Place struct {
	Name        string // of the strategy
	Sale        string // small letters, digits, hyphens; at most 40; unique among runs on the same servers
	RedisURL    string // one server; may be empty where Info.Redis is false
	PostgresURL string // a database in which a schema may be created
}

// World is what the processes of one run share: a schema in PostgreSQL and some keys
// in Redis. It is safe for concurrent use.
type World struct {
	Strategy
	sale   string
	schema string
	pool   *pgxpool.Pool
	redis  rueidis.Client // nil without a URL
	scripts
	faults
	// turns bounds how many ask Redis for a lock at once; the others stand behind.
	turns chan struct{}
}

// Open connects. The caller closes the world. Errors are *sale.Error: CodeInvalid for
// mistakes in the place, CodeUnavailable for servers that do not answer.
func Open(ctx context.Context, p Place) (*World, error) {
	s, err := Find(p.Name)
	if err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`).MatchString(p.Sale) {
		return nil, sale.Invalid("sale", "this is no name of a sale", "use small letters, digits and hyphens, 40 at most")
	}
	w := &World{
		Strategy: s, sale: p.Sale, schema: "lab_" + p.Name + "_" + p.Sale,
		scripts: newScripts(), turns: make(chan struct{}, turns),
	}
	ctx, cancel := context.WithTimeout(ctx, openIn)
	defer cancel()
	if w.pool, err = openPool(ctx, p.PostgresURL, w.schema); err != nil {
		return nil, err
	}
	if s.Redis {
		if w.redis, err = redisconn.Open(ctx, redisconn.Options{URL: p.RedisURL, ClientName: "doorbuster-lab"}); err != nil {
			w.pool.Close()
			return nil, err
		}
	}
	return w, nil
}

func openPool(ctx context.Context, url, schema string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // its text may show the password
		return nil, sale.Invalid("postgres", "this is no URL of a PostgreSQL database", "write postgres://USER:PASSWORD@HOST/DATABASE")
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	config.ConnConfig.RuntimeParams["lock_timeout"] = strconv.FormatInt(patience.Milliseconds(), 10)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err == nil {
		err = pool.Ping(ctx)
	}
	if err != nil {
		if pool != nil {
			pool.Close()
		}
		return nil, &sale.Error{
			Code: sale.CodeUnavailable, Message: "PostgreSQL does not let us in",
			Hint: "check the URL, and that the server runs and has connections left", Retry: true, Err: err,
		}
	}
	return pool, nil
}

// warm opens all connections to PostgreSQL, so that the first buyers do not wait for
// them.
func (w *World) warm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openIn)
	defer cancel()
	for range connections {
		conn, err := w.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
	}
	return nil
}

// Close gives the connections back.
func (w *World) Close() {
	w.pool.Close()
	if w.redis != nil {
		w.redis.Close()
	}
}

// key names something of this run in Redis. All share a hash tag.
func (w *World) key(what string) string { return "lab:{" + w.schema + "}:" + what }

// Prepare puts the stock up for sale. What an earlier run of the same place has left is
// removed.
func (w *World) Prepare(ctx context.Context, stock int64) error {
	if err := w.Discard(ctx); err != nil {
		return err
	}
	schema := pgx.Identifier{w.schema}.Sanitize()
	_, err := w.pool.Exec(ctx, fmt.Sprintf(`
		CREATE SCHEMA %s;
		CREATE TABLE stock (units bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
		INSERT INTO stock (units) VALUES (%d);
		CREATE TABLE orders (
			id text PRIMARY KEY, buyer text NOT NULL, click text NOT NULL,
			state text NOT NULL DEFAULT 'reserved', made_at timestamptz NOT NULL DEFAULT clock_timestamp()
		);
		CREATE INDEX orders_of ON orders (buyer);`, schema, stock))
	if err != nil {
		return fmt.Errorf("strategy: create the tables: %w", err)
	}
	if w.prepare == nil {
		return nil
	}
	return w.prepare(ctx, w, stock)
}

// Discard removes all that the run has put anywhere.
func (w *World) Discard(ctx context.Context) error {
	_, err := w.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{w.schema}.Sanitize()+" CASCADE")
	if err != nil {
		return fmt.Errorf("strategy: drop the schema: %w", err)
	}
	for cursor := uint64(0); w.redis != nil; {
		page, err := w.redis.Do(ctx, w.redis.B().Scan().Cursor(cursor).Match("lab:*{"+w.schema+"}*").Count(1000).Build()).AsScanEntry()
		if err == nil && len(page.Elements) > 0 {
			err = w.redis.Do(ctx, w.redis.B().Unlink().Key(page.Elements...).Build()).Error()
		}
		if err != nil {
			return fmt.Errorf("strategy: remove the keys: %w", err)
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	return nil
}

// conn waits for a connection to PostgreSQL, as long as ctx allows; longer is
// CodeBusy.
func (w *World) conn(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := w.pool.Acquire(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, sale.Busy()
	}
	return c, err
}

// working returns the context of work that has begun: it does not end with the
// patience of the buyer.
func working(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), workTime)
}

// rest waits, or ends early with ctx.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// left returns how many units the books say are left; below zero is none.
func (w *World) left(ctx context.Context) (int64, error) {
	if w.counts {
		n, err := w.redis.Do(ctx, w.redis.B().Get().Key(w.key("stock")).Build()).AsInt64()
		return max(0, n), err
	}
	var n int64
	err := w.pool.QueryRow(ctx, `SELECT units FROM stock`).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return max(0, n), err
}

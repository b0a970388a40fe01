package contest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/redisconn"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/servers"
)

const (
	// storeTime bounds each call that makes or removes something.
	storeTime = 20 * time.Second
	namespace = "doorbuster_lab"
)

// ground is the Redis and the PostgreSQL of a lab: the user's, or started for it. What
// the lab makes there has a name that nobody else has.
type ground struct {
	name string // of the run: letters and digits

	redisURL, postgresURL string
	redisIs, postgresIs   string // version and where from

	redis *servers.Redis    // that was started here
	pg    *servers.Postgres // likewise
}

// prepare returns the ground for rows that need these stores. Errors are *sale.Error
// with CodeUnavailable if they cannot be had. The caller discards the ground.
func prepare(ctx context.Context, o *Options, dir string, needs needs) (_ *ground, err error) {
	g := &ground{name: strings.ToLower(rand.Text()[:10]), redisURL: o.RedisURL, postgresURL: o.PostgresURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.discard())
		}
	}()
	if needs.postgres {
		if err = g.havePostgres(ctx); err != nil {
			return g, err
		}
	}
	if needs.redis {
		err = g.haveRedis(ctx, dir)
	}
	return g, err
}

// needs says which stores a row works with.
type needs struct {
	redis, postgres bool
}

func (g *ground) havePostgres(ctx context.Context) error {
	from := "given"
	if g.postgresURL == "" {
		from = "started for this run, commits forced to the disk"
		var err error
		if g.pg, err = servers.NewPostgres("fsync=on", "full_page_writes=on"); err == nil {
			err = g.pg.Start(ctx)
		}
		if err != nil {
			return missing("--postgres", err)
		}
		g.postgresURL = g.pg.URL("postgres")
	}
	var version string
	var may bool
	err := g.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
			SELECT current_setting('server_version'), rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user`).Scan(&version, &may)
	})
	if err != nil {
		return err
	}
	if !may {
		return &sale.Error{
			Code: sale.CodeUnavailable, Message: "--postgres: the user of the URL may not create databases",
			Hint: "the lab makes databases of its own and drops them: ALTER ROLE name CREATEDB, or leave --postgres out, and one is started from installed binaries",
		}
	}
	version, _, _ = strings.Cut(version, " ")
	g.postgresIs = version + ", " + from
	return nil
}

// ask does something on a connection of its own to the maintenance database.
func (g *ground) ask(ctx context.Context, what func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, g.postgresURL)
	if err != nil {
		return &sale.Error{
			Code: sale.CodeUnavailable, Message: "--postgres: " + err.Error(), Err: err,
			Hint: "check the URL of --postgres and that the server runs, or leave it out, and one is started from installed binaries",
		}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return what(ctx, conn)
}

// database makes a database and returns its URL.
func (g *ground) database(ctx context.Context, row string) (string, error) {
	u, err := url.Parse(g.postgresURL)
	if err != nil {
		return "", errors.New("the URL of PostgreSQL cannot be read")
	}
	name := g.named(row)
	u.Path = "/" + name
	return u.String(), g.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0")
		return err
	})
}

// drop removes the database of a row, and throws out whoever is connected to it.
func (g *ground) drop(ctx context.Context, row string) error {
	err := g.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+g.named(row)+" WITH (FORCE)")
		return err
	})
	if err != nil {
		return fmt.Errorf("drop the database %s: %w", g.named(row), err)
	}
	return nil
}

// named returns the name of what one row has in a store.
func (g *ground) named(row string) string { return namespace + "_" + g.name + "_" + row }

func (g *ground) haveRedis(ctx context.Context, dir string) error {
	from := "given"
	if g.redisURL == "" {
		from = "started for this run"
		dir = filepath.Join(dir, "redis")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		g.redis = servers.NewRedis(dir)
		if err := g.redis.Start(ctx); err != nil {
			return missing("--redis", err)
		}
		g.redisURL = g.redis.URL
	}
	return g.withRedis(ctx, func(ctx context.Context, c rueidis.Client) error {
		report, err := redisconn.Check(ctx, c, nil)
		if e, is := errors.AsType[*sale.Error](err); is { // one that does not suit is none
			return &sale.Error{Code: sale.CodeUnavailable, Message: "--redis: " + e.Message, Hint: e.Hint, Err: err}
		}
		if err != nil {
			return err
		}
		if len(report.Servers) > 0 {
			g.redisIs = report.Servers[0].Version + ", " + from
		}
		return nil
	})
}

// withRedis does something with a client of its own.
func (g *ground) withRedis(ctx context.Context, what func(context.Context, rueidis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	c, err := redisconn.Open(ctx, redisconn.Options{URL: g.redisURL, ClientName: "doorbuster-lab"})
	if err != nil {
		return err
	}
	defer c.Close()
	return what(ctx, c)
}

// sweep removes the keys of a row.
func (g *ground) sweep(ctx context.Context, row string) error {
	return g.withRedis(ctx, func(ctx context.Context, c rueidis.Client) error {
		for cursor := uint64(0); ; {
			page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match("*"+g.named(row)+"*").Count(1000).Build()).AsScanEntry()
			if err == nil && len(page.Elements) > 0 {
				err = c.Do(ctx, c.B().Unlink().Key(page.Elements...).Build()).Error()
			}
			if err != nil {
				return fmt.Errorf("remove the keys *%s*: %w", g.named(row), err)
			}
			if cursor = page.Cursor; cursor == 0 {
				return nil
			}
		}
	})
}

// discard stops what was started.
func (g *ground) discard() error {
	var err error
	if g.redis != nil {
		err = g.redis.End(syscall.SIGTERM)
	}
	if g.pg != nil {
		g.pg.Discard()
	}
	return err
}

// missing says that a store cannot be started, and what to do.
func missing(flag string, err error) error {
	out := &sale.Error{Code: sale.CodeUnavailable, Message: err.Error(), Hint: "or name a server with " + flag}
	if e, is := errors.AsType[*servers.MissingError](err); is {
		out.Hint = e.Hint() + ", or name a server with " + flag
		return out
	}
	out.Message = fmt.Sprintf("a server for %s cannot be started: %v", flag, err)
	return out
}

package probe

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

//go:embed query/*.sql
var queryFiles embed.FS

// session is one connection to PostgreSQL, made again when it was lost.
type session struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil before the first use
	text   map[string]sqldb.Statement
	// denied holds the statements that the server refuses to this account.
	denied map[string]bool
}

// parseURL reads a ledger.url. Its errors are made of nothing that could hold a password.
func parseURL(text string) (*pgx.ConnConfig, error) {
	wrong := sale.Invalid("postgres", "this is not the URL of a PostgreSQL database", "use postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full")
	if u, err := url.Parse(text); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, wrong
	}
	// It may say how many connections a server makes, which only the pool understands.
	pool, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, wrong
	}
	config := pool.ConnConfig
	config.RuntimeParams["application_name"] = "doorbuster-probe"
	config.RuntimeParams["default_transaction_read_only"] = "on"
	return config, nil
}

func newSession(config *pgx.ConnConfig) (*session, error) {
	files, err := fs.Sub(queryFiles, "query")
	if err != nil {
		return nil, err
	}
	text, err := sqldb.Statements(files)
	return &session{config: config, text: text, denied: make(map[string]bool)}, err
}

// connect makes the connection, if there is none. It is true if it is a new one.
func (s *session) connect(ctx context.Context) (bool, error) {
	if s.conn != nil && !s.conn.IsClosed() {
		return false, nil
	}
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return false, cause(err)
	}
	s.conn = conn
	return true, nil
}

// one reads one row. It is false if there is none, or none for this account: then
// remark says why, once it is known.
func (s *session) one(ctx context.Context, name string, args []any, into ...any) (found bool, remark string, err error) {
	if s.denied[name] {
		return false, "", nil
	}
	err = s.conn.QueryRow(ctx, s.text[name].Text, args...).Scan(into...)
	if remark = s.deny(name, err); remark != "" || errors.Is(err, pgx.ErrNoRows) {
		return false, remark, nil
	}
	return err == nil, "", cause(err)
}

// deny remembers a statement that this account cannot have answered, and says why.
func (s *session) deny(name string, err error) string {
	said, ok := errors.AsType[*pgconn.PgError](err)
	// Of access rules and names: privileges, and what this version does not know.
	if !ok || !strings.HasPrefix(said.Code, "42") {
		return ""
	}
	s.denied[name] = true
	return "does not tell its " + name + ": " + said.Message
}

func (s *session) close() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readIn)
	defer cancel()
	_ = s.conn.Close(ctx) // it has only read
}

// cause says why, in one line: an attempt to connect tells of each address.
func cause(err error) error {
	if err == nil {
		return nil
	}
	lines := slices.Collect(strings.Lines(err.Error()))
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return errors.New(strings.Join(lines, "; "))
}

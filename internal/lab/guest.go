package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/servers"
)

// leaveTime is how long a demo may take to put up what it leaves to a ledger of the
// user's.
const leaveTime = 10 * time.Second

// adminKey is the file of the data folder in which a server leaves the key of its first
// start.
const adminKey = "admin.key"

// guest is a demo on a ledger of the user's. It comes with an API key of its own, which
// it takes along: a server that finds no key there would make one that opens everything,
// and one that finds keys would make none.
type guest struct {
	binary, dir, ledger, key string
}

// visit enters a key for the demo's server, in the file in which the server would have
// left its own. On an embedded ledger there is nothing to do, and the guest is nil.
func (o *DemoOptions) visit(ctx context.Context, dir string) (*guest, error) {
	if o.LedgerURL == "" {
		return nil, nil //nolint:nilnil // says so
	}
	g := &guest{binary: o.Binary, dir: dir, ledger: o.LedgerURL}
	if _, err := g.run(ctx, "migrate", "up"); err != nil { // nothing where the schema is up to date
		return nil, err
	}
	args := []string{"key", "create", "--json", "--label", o.sale, "--out", filepath.Join(dir, adminKey)}
	for _, scope := range auth.ScopeNames() {
		args = append(args, "--scope", scope)
	}
	text, err := g.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(text, &made); err != nil {
		return nil, fmt.Errorf("doorbuster key create: %w", err)
	}
	g.key = made.ID
	return g, nil
}

// leave closes the demo's sale and revokes its key. Orders and figures stay.
func (g *guest) leave(ctx context.Context, s *server, id string) error {
	if g == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	return errors.Join(inTime(ctx, func(ctx context.Context) error { return s.closeSale(ctx, id) }), inTime(ctx, g.revoke))
}

// inTime calls f with as much time as a demo takes to leave, whatever else took.
func inTime(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	return f(ctx)
}

// closeSale closes a sale, if it was ever opened and the server still runs.
func (s *server) closeSale(ctx context.Context, id string) error {
	if s == nil || !s.Running() {
		return nil
	}
	key, err := s.Read(adminKey)
	if err != nil {
		return err
	}
	admin, err := client.New(client.Options{URL: s.URL, Token: key})
	if err != nil {
		return err
	}
	_, err = admin.CloseSale(ctx, id)
	if errors.Is(err, client.ErrSaleNotFound) || errors.Is(err, client.ErrIllegalState) {
		return nil // it was never made, or never published
	}
	return err
}

func (g *guest) revoke(ctx context.Context) error {
	_, err := g.run(ctx, "key", "revoke", g.key)
	return err
}

// run runs a command of doorbuster on the ledger and returns what it prints.
func (g *guest) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, g.binary, args...) //nolint:gosec // our own binary
	cmd.Env, cmd.Dir = append(servers.PlainEnvironment(), "DOORBUSTER_LEDGER_URL="+g.ledger), g.dir
	text, err := cmd.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is && len(failed.Stderr) > 0 {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("doorbuster %s: %w", strings.Join(args[:2], " "), err)
	}
	return text, nil
}

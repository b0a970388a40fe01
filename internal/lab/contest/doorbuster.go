package contest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/servers"
)

// doorbuster is a house in which Doorbuster sells.
type doorbuster struct {
	lab       *lab
	name      string
	instances int
	needs     needs

	running []*servers.Doorbuster
	logs    []*os.File
	admin   *client.Client
}

func (h *doorbuster) open(ctx context.Context) ([]string, error) {
	env, err := h.parts(ctx)
	if err != nil {
		return nil, err
	}
	addrs := make([]string, 0, h.instances)
	for i := range h.instances { // one after the other: the first brings the schema up to date
		s, startErr := h.start(ctx, i, env)
		if startErr != nil {
			return nil, startErr
		}
		addrs = append(addrs, strings.TrimPrefix(s.URL, "http://"))
	}
	key, err := h.running[0].Read("admin.key")
	if err != nil {
		return nil, err
	}
	if h.admin, err = client.New(client.Options{URL: h.running[0].URL, Token: key}); err != nil {
		return nil, err
	}
	return addrs, h.publish(ctx)
}

// parts returns the environment that names the parts of the servers.
func (h *doorbuster) parts(ctx context.Context) ([]string, error) {
	var env []string
	if h.needs.postgres {
		address, err := h.lab.ground.database(ctx, h.name)
		if err != nil {
			return nil, err
		}
		env = append(env, "DOORBUSTER_LEDGER_URL="+address)
	}
	if h.needs.redis {
		env = append(env, "DOORBUSTER_REDIS_URL="+h.lab.ground.redisURL, "DOORBUSTER_REDIS_PREFIX="+h.lab.ground.named(h.name))
	}
	return env, nil
}

func (h *doorbuster) start(ctx context.Context, i int, env []string) (*servers.Doorbuster, error) {
	dir, err := h.lab.folder(fmt.Sprintf("%s-%d", h.name, i+1))
	if err != nil {
		return nil, err
	}
	// All accept the tokens of the one crowd.
	if err = os.WriteFile(filepath.Join(dir, "jwt.key"), h.lab.secret, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, logName)) //nolint:gosec // in a folder of our own
	if err != nil {
		return nil, err
	}
	s := &servers.Doorbuster{Binary: h.lab.Binary, Dir: dir, Env: env, Out: log}
	h.running, h.logs = append(h.running, s), append(h.logs, log)
	if err = s.Start(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tailOf(dir))
	}
	return s, nil
}

// publish puts the stock up for sale, and warms the fast path.
func (h *doorbuster) publish(ctx context.Context) error {
	const layout, length = "2006-01-02T15:04:05.000Z", 24 * time.Hour
	now := time.Now().UTC()
	path := "direct"
	if h.needs.redis {
		path = "fast"
	}
	_, err := h.admin.CreateSale(ctx, client.NewSale{
		ID: saleName, Title: "Lab", PreferredPath: path, Currency: "EUR", PerUserLimit: 1,
		// It has begun, by whichever clock.
		StartsAt: now.Add(-time.Hour).Format(layout), EndsAt: now.Add(length).Format(layout),
		Items: []client.NewItem{{SKU: "unit", Title: "One unit", Price: 100, Stock: h.lab.Stock}},
	})
	if err == nil {
		_, err = h.admin.Publish(ctx, saleName)
	}
	if err == nil && h.needs.redis {
		_, err = h.admin.Preheat(ctx, saleName)
	}
	return err
}

// kill ends the second instance.
func (h *doorbuster) kill() error {
	return h.running[len(h.running)-1].Kill()
}

func (h *doorbuster) recount(ctx context.Context) ([]entry, findings, error) {
	var entries []entry
	orders := client.All(func(after string) (client.Page[client.Order], error) {
		return h.admin.AdminOrders(ctx, client.OrderQuery{Sale: saleName, After: after})
	})
	for o, err := range orders {
		if err != nil {
			return nil, findings{}, err
		}
		live := o.State == client.StateReserved || o.State == client.StatePaid
		entries = append(entries, entry{id: o.ID, buyer: o.User, units: o.Quantity, live: live})
	}
	report, err := h.admin.Audit(ctx, saleName)
	if err != nil {
		return nil, findings{}, fmt.Errorf("audit: %w", err)
	}
	return entries, foundBy(&report), nil
}

// foundBy returns what an audit says is broken.
func foundBy(report *client.AuditReport) findings {
	var f findings
	var notes []string
	for _, s := range report.Sales {
		for _, r := range s.Rules {
			if r.Broken > 0 {
				f.broken += r.Broken
				notes = append(notes, fmt.Sprintf("audit rule %s (%s): %d of %d broken", r.Rule, r.Promise, r.Broken, r.Checked))
			}
		}
	}
	if len(report.Sales) == 0 {
		f.broken++
		notes = append(notes, "the audit found no sale")
	}
	f.note = strings.Join(notes, "; ")
	return f
}

func (h *doorbuster) close(ctx context.Context) error {
	var err error
	for _, s := range h.running {
		if s.Process != nil && s.Running() {
			err = errors.Join(err, s.Stop())
		}
	}
	for _, log := range h.logs {
		err = errors.Join(err, log.Close())
	}
	if h.needs.redis {
		err = errors.Join(err, h.lab.ground.sweep(ctx, h.name))
	}
	if h.needs.postgres {
		err = errors.Join(err, h.lab.ground.drop(ctx, h.name))
	}
	return err
}

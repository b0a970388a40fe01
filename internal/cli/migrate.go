package cli

import (
	"context"
	"time"

	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/sqldb"
)

// migrateCmd changes the ledger's schema. serve does it by itself; the commands
// are for doing it at a time of one's own choice.
type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is missing; no server may run on the ledger."`
	Status migrateStatusCmd `cmd:"" help:"List what is applied and what is missing."`
}

// shownMigration is a migration in JSON.
type shownMigration struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at,omitempty"` // absent while it is pending
}

func showMigrations(found []sqldb.Migration) []shownMigration {
	out := make([]shownMigration, len(found))
	for i, m := range found {
		out[i] = shownMigration{Version: m.Version, Name: m.Name, AppliedAt: timeOrNil(m.AppliedAt)}
	}
	return out
}

type migrateUpCmd struct {
	jsonFlag
	settings
}

// Run applies.
func (c *migrateUpCmd) Run(ctx context.Context, s *session) error {
	cfg, err := c.load(s)
	if err != nil {
		return err
	}
	applied, err := app.MigrateLedger(ctx, cfg.Ledger.URL)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, showMigrations(applied))
	}
	for _, m := range applied {
		if err := say(s.Out, "applied %s", m.Name); err != nil {
			return err
		}
	}
	if len(applied) == 0 {
		return say(s.Out, "the ledger is up to date")
	}
	return nil
}

type migrateStatusCmd struct {
	jsonFlag
	settings
}

// Run lists.
func (c *migrateStatusCmd) Run(ctx context.Context, s *session) error {
	cfg, err := c.load(s)
	if err != nil {
		return err
	}
	found, err := app.LedgerMigrations(ctx, cfg.Ledger.URL)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, showMigrations(found))
	}
	rows := [][]string{{"VERSION", "NAME", "APPLIED AT"}}
	for _, m := range found {
		at := "pending"
		if !m.AppliedAt.IsZero() {
			at = instant(m.AppliedAt)
		}
		rows = append(rows, []string{number(m.Version), m.Name, at})
	}
	return table(s.Out, rows)
}

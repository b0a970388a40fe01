package cli

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/ledger"
)

// keyCmd manages API keys.
type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Create an API key; its text is shown this once."`
	List   keyListCmd   `cmd:"" help:"List API keys."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke an API key; it takes effect within two seconds."`
}

// onLedger opens the ledger of the configuration for a piece of work.
func (c *settings) onLedger(ctx context.Context, s *session, access app.Access, work func(*app.Book) error) error {
	cfg, err := c.load(s)
	if err != nil {
		return err
	}
	book, err := app.OpenLedger(ctx, cfg.Ledger.URL, access, slog.New(slog.NewTextHandler(s.Err, nil)))
	if err != nil {
		return err
	}
	err = work(book)
	if closeErr := book.Close(); err == nil {
		err = closeErr
	}
	return err
}

// shownKey is a key in JSON.
type shownKey struct {
	ID        string     `json:"id"`
	Scopes    []string   `json:"scopes"`
	Label     string     `json:"label"`
	CreatedAt *time.Time `json:"created_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	Key       string     `json:"key,omitempty"`  // of a new key only
	File      string     `json:"file,omitempty"` // of a new key written to a file
}

type keyCreateCmd struct {
	jsonFlag
	settings
	Scope []string `required:"" placeholder:"SCOPE" help:"What the key may do: shop (act for buyers, payments, refunds), admin (sales, all orders), ops (metrics). May be repeated."`
	Label string   `placeholder:"TEXT" help:"What the key is for."`
	Out   string   `placeholder:"FILE" help:"Write the key to a new file that only its owner can read, instead of standard output."`
}

// Run creates.
func (c *keyCreateCmd) Run(ctx context.Context, s *session) error {
	record, text, err := auth.NewAPIKey(c.Label, c.Scope)
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err = writeSecret(c.Out, text); err != nil {
			return err
		}
	}
	err = c.onLedger(ctx, s, app.Touch, func(b *app.Book) error { return b.PutAPIKey(ctx, record) })
	if err != nil {
		if c.Out != "" {
			_ = os.Remove(c.Out) // a key that nobody knows of opens nothing
		}
		return err
	}
	shown := shownKey{ID: record.ID, Scopes: record.Scopes, Label: record.Label, File: c.Out}
	if c.Out == "" {
		shown.Key = text
	}
	switch {
	case c.JSON:
		return writeJSON(s.Out, shown)
	case c.Out != "":
		return say(s.Out, "created key %s (%s) in %s", record.ID, strings.Join(record.Scopes, ", "), c.Out)
	}
	return say(s.Out, "%s", text)
}

// writeSecret writes a file that must not exist yet.
func writeSecret(path, text string) error {
	const ownerOnly = 0o600
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, ownerOnly) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

type keyListCmd struct {
	jsonFlag
	settings
}

// Run lists.
func (c *keyListCmd) Run(ctx context.Context, s *session) error {
	var found []ledger.APIKey
	err := c.onLedger(ctx, s, app.Look, func(b *app.Book) (err error) {
		found, err = b.ListAPIKeys(ctx)
		return err
	})
	if err != nil {
		return err
	}
	shown := make([]shownKey, 0, len(found))
	rows := [][]string{{"ID", "SCOPES", "LABEL", "CREATED AT", "REVOKED AT"}}
	for i := range found {
		k := &found[i]
		shown = append(shown, shownKey{ID: k.ID, Scopes: k.Scopes, Label: k.Label, CreatedAt: timeOrNil(k.CreatedAt), RevokedAt: timeOrNil(k.RevokedAt)})
		rows = append(rows, []string{k.ID, strings.Join(k.Scopes, ","), orDash(k.Label), instant(k.CreatedAt), instant(k.RevokedAt)})
	}
	if c.JSON {
		return writeJSON(s.Out, shown)
	}
	return table(s.Out, rows)
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

type keyRevokeCmd struct {
	jsonFlag
	settings
	ID string `arg:"" help:"Id of the key, as key list shows it."`
}

// revoked is the result of a revocation in JSON.
type revoked struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked"`
}

// Run revokes.
func (c *keyRevokeCmd) Run(ctx context.Context, s *session) error {
	err := c.onLedger(ctx, s, app.Touch, func(b *app.Book) error { return b.RevokeAPIKey(ctx, c.ID) })
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, revoked{ID: c.ID, Revoked: true})
	}
	return say(s.Out, "revoked key %s", c.ID)
}

package cli

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/client"
)

// gateCmd looks after the gate.
type gateCmd struct {
	Show      gateShowCmd      `cmd:"" help:"Show the gate's settings and whose they are."`
	Set       gateSetCmd       `cmd:"" help:"Replace the gate's settings by those of a file."`
	RotateKey gateRotateKeyCmd `cmd:"" help:"Let the gate sign with a new key; what earlier ones signed stays good for as long as it lives."`
	List      gateListCmd      `cmd:"" help:"List whom the gate denies, allows or asks for a proof."`
	Deny      gateDenyCmd      `cmd:"" help:"Let nobody of a subject in; who has an order still gets it."`
	Allow     gateAllowCmd     `cmd:"" help:"Let a subject past every limit and challenge."`
	Challenge gateChallengeCmd `cmd:"" help:"Ask everybody of a subject for a proof."`
	Drop      gateDropCmd      `cmd:"" help:"Take the listing of a subject back, whoever made it."`
}

type gateShowCmd struct {
	jsonFlag
	remote
}

// Help returns the long help.
func (c *gateShowCmd) Help() string {
	return "Prints the settings as the document that gate set takes, and on standard error whose they are. With --json everything is one document."
}

// Run shows.
func (c *gateShowCmd) Run(ctx context.Context, s *session) error {
	var g client.GateSettings
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		g, err = api.GateSettings(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, g)
	}
	if err = say(s.Err, "%s", originOf(&g)); err != nil {
		return err
	}
	return writeJSON(s.Out, g.Settings)
}

// originOf says whose settings are in force.
func originOf(g *client.GateSettings) string {
	switch g.From {
	case "ledger":
		return "entered by " + plain(g.Author) + " at " + instantOf(g.At) + ", version " + number(g.Version)
	case "file":
		return "of gate.settings_file"
	}
	return "the built-in ones"
}

type gateSetCmd struct {
	jsonFlag
	remote
	File      string `short:"f" required:"" placeholder:"FILE" help:"The settings in JSON; - is standard input."`
	IfVersion *int64 `placeholder:"N" help:"Only if the settings are those of this version (gate show --json); 0: none were entered yet. Without it, those that are there now are replaced."`
}

// Help returns the long help.
func (c *gateSetCmd) Help() string {
	return "What the file leaves out takes its default; a list of limits replaces the default one as a whole. docs/gate.md describes the settings. " +
		"They take effect on every instance within two seconds, in the place of gate.settings_file."
}

// Run sets.
func (c *gateSetCmd) Run(ctx context.Context, s *session) error {
	text, err := readInput(s, c.File)
	if err != nil {
		return err
	}
	if !json.Valid(text) {
		return &usageError{message: plain(c.File) + ": this is not JSON", hint: "start from what doorbuster gate show prints"}
	}
	var g client.GateSettings
	err = c.call(ctx, s, func(ctx context.Context, api *client.Client) error {
		version := c.IfVersion
		if version == nil {
			now, showErr := api.GateSettings(ctx)
			if showErr != nil {
				return showErr
			}
			version = &now.Version
		}
		g, err = api.PutGateSettings(ctx, *version, text)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, g)
	}
	return say(s.Out, "the gate's settings are those of version %d", g.Version)
}

type gateRotateKeyCmd struct {
	jsonFlag
	remote
}

// Run rotates.
func (c *gateRotateKeyCmd) Run(ctx context.Context, s *session) error {
	var key client.GateKey
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		key, err = api.RotateGateKey(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, key)
	}
	return say(s.Out, "the gate signs with key %d from now on", key.ID)
}

type gateListCmd struct {
	jsonFlag
	remote
	Subject string `placeholder:"SUBJECT" help:"Only this subject; of networks, all that hold the address or network."`
	Effect  string `placeholder:"EFFECT" help:"Only listings with this effect: deny, allow or challenge."`
	Limit   int    `default:"100" help:"Most listings to list; 0 lists all."`
}

// Run lists.
func (c *gateListCmd) Run(ctx context.Context, s *session) error {
	q := client.BanQuery{Effect: c.Effect}
	if c.Subject != "" {
		subject, err := subjectOf(c.Subject)
		if err != nil {
			return err
		}
		q.Subject = subject.Kind + ":" + subject.Value
	}
	found, err := listing(ctx, s, &c.remote, c.Limit, func(ctx context.Context, api *client.Client, after string, limit int) (client.Page[client.Listing], error) {
		q.After, q.Limit = after, limit
		return api.Bans(ctx, q)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, found)
	}
	rows := [][]string{{"EFFECT", "KIND", "SUBJECT", "SINCE", "UNTIL", "BY", "REASON"}}
	for i := range found {
		l := &found[i]
		rows = append(rows, []string{l.Effect, l.Kind, l.Value, instant(l.CreatedAt), instantOf(l.ExpiresAt), l.Author, orDash(l.Reason)})
	}
	return table(s.Out, rows)
}

// oneSubject is embedded by commands about one subject.
type oneSubject struct {
	jsonFlag
	remote
	Subject string `arg:"" help:"user:ID, device:ID, or an address or network such as 203.0.113.0/24."`
}

// enter are the flags of commands that make a listing.
type enter struct {
	oneSubject
	Reason string         `placeholder:"TEXT" help:"Why, for whoever reads the list; at most 200 characters."`
	For    *time.Duration `placeholder:"TIME" help:"How long, as in 24h; without it, for ever."`
}

func (c *enter) run(ctx context.Context, s *session, effect string) error {
	subject, err := subjectOf(c.Subject)
	if err != nil {
		return err
	}
	n := client.NewListing{Kind: subject.Kind, Value: subject.Value, Effect: effect, Reason: c.Reason}
	if c.For != nil {
		// A script whose remaining time comes out at nothing does not mean for ever.
		if *c.For < time.Second {
			return &usageError{message: "--for: the time is shorter than a second", hint: "write it like 24h, or leave it out for a listing without an end"}
		}
		until := s.now().Add(*c.For).UTC().Truncate(time.Second)
		n.ExpiresAt = &until
	}
	var l client.Listing
	err = c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		l, err = api.PutBan(ctx, n)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, l)
	}
	until := "for ever"
	if l.ExpiresAt != nil {
		until = "until " + instant(*l.ExpiresAt)
	}
	return say(s.Out, "%s %s %s %s", l.Effect, l.Kind, plain(l.Value), until)
}

type gateDenyCmd struct{ enter }

// Run denies.
func (c *gateDenyCmd) Run(ctx context.Context, s *session) error { return c.run(ctx, s, "deny") }

type gateAllowCmd struct{ enter }

// Run allows.
func (c *gateAllowCmd) Run(ctx context.Context, s *session) error { return c.run(ctx, s, "allow") }

type gateChallengeCmd struct{ enter }

// Run asks for proofs.
func (c *gateChallengeCmd) Run(ctx context.Context, s *session) error {
	return c.run(ctx, s, "challenge")
}

type gateDropCmd struct{ oneSubject }

// Run drops.
func (c *gateDropCmd) Run(ctx context.Context, s *session) error {
	subject, err := subjectOf(c.Subject)
	if err != nil {
		return err
	}
	var l client.Listing
	err = c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		l, err = api.DropBan(ctx, subject)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, l)
	}
	return say(s.Out, "dropped: %s %s %s", l.Effect, l.Kind, plain(l.Value))
}

// subjectOf reads whom a listing is about. An address needs no kind before it, and has
// colons of its own.
func subjectOf(text string) (client.Subject, error) {
	kind, value, ok := strings.Cut(text, ":")
	if ok && (kind == "user" || kind == "device" || kind == "network") {
		return client.Subject{Kind: kind, Value: value}, nil
	}
	_, addrErr := netip.ParseAddr(text)
	_, err := netip.ParsePrefix(text)
	if err == nil || addrErr == nil {
		return client.Subject{Kind: "network", Value: text}, nil
	}
	return client.Subject{}, &usageError{message: plain(text) + " is no subject", hint: "write user:ID, device:ID, or an address or network such as 203.0.113.0/24"}
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/lab/bench"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
)

// benchCmd sends a crowd at servers that run.
type benchCmd struct {
	URLs []string `arg:"" optional:"" name:"urls" help:"The servers' addresses: all instances that sell the sale (DOORBUSTER_URL). Without one, the server that runs on the data folder."`
	URL  []string `placeholder:"URL" help:"The same, as a flag. May be repeated."`
	jsonFlag
	settings
	benchSale
	benchCrowd
	benchWho
	benchWatch

	Connections int           `help:"Connections for the crowd; 0 is as many as files allow, at most 2,000."`
	Timeout     time.Duration `default:"10s" help:"Longest wait for one answer."`
	Seed        uint64        `help:"Draw the same crowd as a run that printed this seed; 0 draws another one."`
	HTML        string        `name:"html" placeholder:"FILE" help:"Write the report as a page with charts."`
	Out         string        `placeholder:"FILE" help:"Write the report as JSON, to be compared with later."`
	Compare     string        `placeholder:"FILE" help:"Show the figures of an earlier run, written with --out, beside these."`
}

// benchSale is what is sold.
type benchSale struct {
	Sale  string        `group:"The sale" placeholder:"ID" help:"Come to this sale, at its start or, if it is live, now. Without it one is made, and closed in the end."`
	Stock *int64        `group:"The sale" placeholder:"N" help:"Units of the sale that is made: without it, as many as the profile says (1,000, or one for each buy)."`
	Path  string        `group:"The sale" default:"" enum:",fast,direct" help:"fast or direct: the path of the sale that is made; the server's own choice without it."`
	Hold  time.Duration `group:"The sale" default:"5m" help:"How long it waits for payment."`
	Limit int64         `group:"The sale" default:"1" help:"Units a buyer."`
	In    time.Duration `group:"The sale" default:"3s" help:"Time from its opening to the first of the crowd."`
	Keep  bool          `group:"The sale" help:"Leave it open in the end."`
}

// benchCrowd is how the crowd comes and what it does. What is not set is the
// profile's.
type benchCrowd struct {
	Profile      string         `group:"The crowd" default:"pulse" enum:"pulse,ramp,constant,refresh,bots,shop" help:"pulse, ramp, constant, refresh, bots or shop; see above."`
	Buyers       *int           `group:"The crowd" placeholder:"N" help:"How many buyers."`
	Spread       *time.Duration `group:"The crowd" placeholder:"TIME" help:"They come within this time after the start."`
	Rate         *float64       `group:"The crowd" placeholder:"N" help:"Or they come by this many a second, for --length."`
	From         *float64       `group:"The crowd" placeholder:"N" help:"Or by a rate that begins with this many a second"`
	To           *float64       `group:"The crowd" placeholder:"N" help:"and ends with this many."`
	Length       *time.Duration `group:"The crowd" placeholder:"TIME" help:"How long they come by rate."`
	Refreshes    *float64       `group:"The crowd" placeholder:"N" help:"Looks a second at the sale in the time before its start."`
	Before       *time.Duration `group:"The crowd" placeholder:"TIME" help:"How long that is."`
	Bots         *float64       `group:"The crowd" placeholder:"SHARE" help:"Share of the buyers, 0 to 1, that are bots."`
	BotClicks    *int           `group:"The crowd" placeholder:"N" help:"Clicks of a bot, the first of all in the first instant."`
	DoubleClicks *float64       `group:"The crowd" placeholder:"SHARE" help:"Share of the others that send each click twice at once."`
	Think        *time.Duration `group:"The crowd" placeholder:"TIME" help:"How long a buyer thinks who has got something."`
	Pay          *float64       `group:"The crowd" placeholder:"SHARE" help:"Share of those who then pay (the key needs the scope shop)."`
	Cancel       *float64       `group:"The crowd" placeholder:"SHARE" help:"Share of those who then cancel; the rest leave it."`
	Again        *int           `group:"The crowd" placeholder:"N" help:"How often a click comes again that was answered 429, 503 or not at all."`
}

// benchWho is who the crowd is.
type benchWho struct {
	KeyFile  string `group:"Who they are" placeholder:"FILE" help:"File with an API key with the scopes admin, and shop for --pay (or the key itself in DOORBUSTER_API_KEY). Without it, admin.key of the data folder."`
	Tokens   string `group:"Who they are" placeholder:"FILE" help:"The buyers' tokens, one a line, or user, tab and token; as many buyers as lines unless --buyers says fewer."`
	JWTKey   string `group:"Who they are" name:"jwt-key" placeholder:"FILE" help:"Or sign them with the HS256 secret in this file. Without either, and on this machine, with that of the data folder."`
	Issuer   string `group:"Who they are" placeholder:"ISS" help:"Their iss claim; that of the configuration without it."`
	Audience string `group:"Who they are" placeholder:"AUD" help:"Their aud claim; that of the configuration without it."`
}

// benchWatch is what is watched meanwhile.
type benchWatch struct {
	Ops      []string `group:"What is watched" placeholder:"URL" help:"The servers' ops listeners. May be repeated."`
	Redis    string   `group:"What is watched" placeholder:"URL" help:"The Redis behind them."`
	Postgres string   `group:"What is watched" placeholder:"URL" help:"The PostgreSQL behind them."`
	Nginx    string   `group:"What is watched" placeholder:"URL" help:"The stub_status page of the nginx in front of them."`
}

// Help returns the long help.
func (c *benchCmd) Help() string {
	var b strings.Builder
	b.WriteString("Sends a crowd in an open loop: each click has an instant at which it is due, drawn before, and goes then, however slow the answers are; " +
		"waiting counts from that instant. In the end it compares what buyers were told with what the server holds, asks for an audit, and says PASS or FAIL. " +
		"Exit code 3 means that a promise is broken.\n\nThe profiles, whose every number has a flag:")
	for _, p := range bench.Presets() {
		fmt.Fprintf(&b, "\n  %-9s %s", p.Name, p.Doc)
	}
	b.WriteString("\n\nThe crowd and the server share this machine's cores where both run on it. Connections from loopback are of the house and meet no limit of the gate, unless a proxy brings them.")
	return b.String()
}

// Run sends the crowd and tells of it.
func (c *benchCmd) Run(ctx context.Context, s *session) error {
	o, err := c.options(s)
	if err != nil {
		return err
	}
	var old *bench.Report
	if c.Compare != "" {
		if old, err = readReport(c.Compare); err != nil {
			return err
		}
	}
	out, err := newPage(c.Out)
	if err != nil {
		return err
	}
	defer out.discard()
	drawn, err := newPage(c.HTML)
	if err != nil {
		return err
	}
	defer drawn.discard()
	report, err := bench.Run(ctx, o)
	if report == nil {
		return err
	}
	err = errors.Join(err, c.print(s, report, old),
		out.keep(report.WriteJSON),
		drawn.keep(func(w io.Writer) error { return bench.WriteHTMLCompared(w, report, old) }))
	if report.Pass || report.Unproved != "" {
		return err
	}
	if err != nil { // whatever else went wrong, a broken promise is what the exit code tells
		err = say(s.Err, "doorbuster: %s", plain(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return errors.Join(brokenError{}, err)
}

func (c *benchCmd) options(s *session) (bench.Options, error) {
	o := bench.Options{
		Sale:        bench.Sale{ID: c.Sale, Path: c.Path, Hold: c.Hold, Limit: c.Limit, In: c.In, Keep: c.Keep},
		Connections: c.Connections, Timeout: c.Timeout, Seed: c.Seed,
		Probe:   probe.Options{Ops: c.Ops, Redis: c.Redis, Postgres: c.Postgres, Nginx: c.Nginx},
		Version: currentVersion(), Command: s.command(), Progress: terminal(s, c.JSON),
	}
	if err := c.check(); err != nil {
		return o, err
	}
	c.crowd(&o)
	cfg, err := c.load(s)
	if err != nil {
		return o, err
	}
	o.Probe.Prefix = cfg.Redis.Prefix
	dir, err := c.reach(s, &o)
	if err != nil {
		return o, err
	}
	return o, c.identities(s, &o, dir)
}

func (c *benchCmd) check() error {
	switch {
	case c.Stock != nil && *c.Stock < 1 || c.Limit < 1:
		return &usageError{message: "a sale needs units, and buyers a limit", hint: "write --stock and --limit as whole numbers from 1"}
	case c.Hold < time.Second || c.Hold%time.Second != 0:
		return &usageError{message: "--hold: it is whole seconds", hint: "write it like 30s or 5m"}
	case c.In < time.Second:
		return &usageError{message: "--in: connections are opened in that time", hint: "write 1s or more"}
	case c.Connections < 0 || c.Timeout <= 0:
		return &usageError{message: "--connections and --timeout are positive", hint: "leave them out for the defaults"}
	case c.Tokens != "" && c.JWTKey != "":
		return &usageError{message: "--tokens and --jwt-key both say who the buyers are", hint: "name one of them"}
	case c.Rate != nil && (c.From != nil || c.To != nil):
		return &usageError{message: "--rate says the same as --from and --to together", hint: "use either"}
	}
	return nil
}

// crowd puts the profile together.
func (c *benchCmd) crowd(o *bench.Options) {
	for _, preset := range bench.Presets() {
		if preset.Name == c.Profile {
			o.Name, o.Profile, o.Conduct, o.Sale.Stock = preset.Name, preset.Profile, preset.Conduct, preset.Stock
		}
	}
	p, w := &o.Profile, &o.Conduct
	if c.Rate != nil {
		c.From, c.To = c.Rate, c.Rate
	}
	if c.Spread != nil { // a pulse, whatever the profile was
		p.From, p.To, p.Length = 0, 0, 0
	}
	if c.From != nil || c.To != nil {
		p.Spread, p.Length = 0, cmp.Or(p.Length, 10*time.Second)
	}
	set(&o.Sale.Stock, c.Stock)
	set(&p.Buyers, c.Buyers)
	set(&p.Spread, c.Spread)
	set(&p.From, c.From)
	set(&p.To, c.To)
	set(&p.Length, c.Length)
	set(&p.Refreshes, c.Refreshes)
	set(&p.Before, c.Before)
	set(&p.Bots, c.Bots)
	set(&p.BotClicks, c.BotClicks)
	set(&p.DoubleClick, c.DoubleClicks)
	set(&w.Think, c.Think)
	set(&w.Pay, c.Pay)
	set(&w.Cancel, c.Cancel)
	set(&w.Again, c.Again)
	if p.Bots > 0 && p.BotClicks == 0 {
		p.BotClicks = 10
	}
}

// set puts a flag that was given in the place of a default.
func set[T any](into, flag *T) {
	if flag != nil {
		*into = *flag
	}
}

// reach finds the servers and the key, as other commands do, and returns the data
// folder, empty if none was needed.
func (c *benchCmd) reach(s *session, o *bench.Options) (string, error) {
	r := remote{KeyFile: c.KeyFile, settings: c.settings}
	if o.URLs = slices.Concat(c.URLs, c.URL); len(o.URLs) > 0 {
		r.URL = o.URLs[0]
	}
	dir, err := r.dataDir(s)
	if err != nil {
		return "", err
	}
	if len(o.URLs) == 0 {
		o.URLs = make([]string, 1)
		if o.URLs[0], err = r.address(s, dir); err != nil {
			return "", err
		}
	}
	o.Key, err = r.key(s, dir, o.URLs[0])
	if len(o.Probe.Ops) == 0 && dir != "" && local(o.URLs[0]) {
		o.Probe.Ops = opsOf(dir, o.URLs)
	}
	return dir, err
}

// opsOf returns the ops listener of the server that runs on the data folder, if that
// is the one to be measured.
func opsOf(dir string, urls []string) []string {
	api, err := os.ReadFile(filepath.Join(dir, apiAddrFile))    //nolint:gosec // the operator names the folder
	ops, opsErr := os.ReadFile(filepath.Join(dir, opsAddrFile)) //nolint:gosec // the operator names the folder
	if err != nil || opsErr != nil || len(urls) != 1 || urls[0] != "http://"+reachable(strings.TrimSpace(string(api))) {
		return nil
	}
	return []string{"http://" + reachable(strings.TrimSpace(string(ops)))}
}

// opsAddrFile is where a server writes the address of its ops listener.
const opsAddrFile = "ops.addr"

// identities says who the buyers are.
func (c *benchCmd) identities(s *session, o *bench.Options, dir string) error {
	if c.Tokens != "" {
		return c.fromFile(o)
	}
	m := buyers.Minting{Issuer: c.Issuer, Audience: c.Audience, Now: s.now(), Life: tokenLife}
	file := c.JWTKey
	if file == "" || c.Issuer == "" || c.Audience == "" {
		cfg, err := c.load(s)
		if err != nil {
			return err
		}
		jwt := &cfg.Auth.JWT
		m.Issuer, m.Audience = cmp.Or(c.Issuer, jwt.Issuer), cmp.Or(c.Audience, jwt.Audience)
		if file == "" && local(o.URLs[0]) {
			if file = jwt.SecretFile; !jwt.Named() {
				file = filepath.Join(cmp.Or(dir, cfg.DataDir), app.TokenKeyFile)
			}
		}
	}
	if file == "" {
		return &usageError{message: "there are no buyers: nothing says how to make their tokens", hint: "name a file of tokens with --tokens, or the secret that signs them with --jwt-key"}
	}
	secret, err := auth.ReadSecret(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &usageError{message: "there is no key to sign tokens with: " + file + " does not exist", hint: "name it with --jwt-key, or the data folder of the server with --data-dir"}
	}
	m.Secret = secret
	o.Cast = func(n int, run string) (*buyers.Cast, error) { return buyers.Mint(n, run, m) }
	return err
}

// tokenLife is longer than any run.
const tokenLife = 26 * time.Hour

func (c *benchCmd) fromFile(o *bench.Options) error {
	f, err := os.Open(c.Tokens)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	most := 0
	if c.Buyers != nil {
		most = *c.Buyers
	}
	cast, err := buyers.ReadCast(f, most)
	if err != nil {
		return &usageError{message: "--tokens: " + c.Tokens + ": " + err.Error(), hint: "write one token a line, or user, tab and token"}
	}
	if cast.Size() < most {
		return &usageError{message: fmt.Sprintf("--tokens: %s has %d tokens for %d buyers", c.Tokens, cast.Size(), most), hint: "lower --buyers, or add tokens"}
	}
	o.Profile.Buyers = cast.Size()
	o.Cast = func(int, string) (*buyers.Cast, error) { return cast, nil }
	return nil
}

func readReport(path string) (*bench.Report, error) {
	f, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	r, err := bench.Read(f)
	if err != nil {
		return nil, &usageError{message: "--compare: " + path + ": " + err.Error(), hint: "name a file that doorbuster bench --out has written"}
	}
	return r, nil
}

func (c *benchCmd) print(s *session, r, old *bench.Report) error {
	if c.JSON {
		return r.WriteJSON(s.Out)
	}
	if old != nil {
		if err := r.WriteCompared(s.Out, old); err != nil {
			return err
		}
	}
	return r.WriteText(s.Out)
}

// keep writes a page where one is wanted.
func (p *page) keep(draw func(io.Writer) error) error {
	if p == nil {
		return nil
	}
	return p.write(draw)
}

// terminal returns the terminal to draw progress on, or nil for none.
func terminal(s *session, quiet bool) io.Writer { //nolint:revive // --json as it is
	f, ok := s.Err.(*os.File)
	if quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// command returns the words of the command line, without what is secret in them: the
// passwords of URLs and the values of settings.
func (s *session) command() string {
	words := make([]string, len(s.args))
	hide := false
	for i, word := range s.args {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case hide:
			word = hidden(word)
		case joined && name == "--set":
			word = name + "=" + hidden(value)
		case joined && strings.HasPrefix(name, "--"):
			word = name + "=" + redacted(value)
		default:
			word = redacted(word)
		}
		hide = s.args[i] == "--set"
		words[i] = word
	}
	return strings.Join(words, " ")
}

// hidden keeps the key of KEY=VALUE.
func hidden(pair string) string {
	key, _, _ := strings.Cut(pair, "=")
	return key + "=…"
}

// redacted takes password and query out of a URL.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}

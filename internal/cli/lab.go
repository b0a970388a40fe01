package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/doorbuster/doorbuster/internal/lab/contest"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// labCmd shows the accidents and the cure.
type labCmd struct {
	Buyers   int           `default:"2000" help:"Buyers in the rush, at least twice as many as there are units."`
	Stock    int64         `default:"100" help:"Units on sale."`
	Seed     uint64        `help:"Draw the same crowd as a lab that printed this seed; 0 draws another one."`
	Only     []string      `placeholder:"ROW" help:"Run only these rows."`
	Redis    string        `placeholder:"URL" help:"Use this Redis server; without it one is started from the installed redis-server and thrown away."`
	Postgres string        `placeholder:"URL" help:"Use this PostgreSQL, with a user who may create databases; without it one is started from the installed binaries and thrown away."`
	HTML     string        `default:"doorbuster-lab.html" placeholder:"FILE" help:"Where the report is written as a page (${default}); empty writes none."`
	Timeout  time.Duration `default:"5m" help:"Longest time for all rows."`
	jsonFlag
}

// Help returns the long help.
func (c *labCmd) Help() string {
	return "Sends one and the same crowd at every way to sell a hundred units that people have tried, each in two processes, and at Doorbuster; " +
		"recounts what was sold from the orders, and prints one table: what was oversold, could not be sold, was bought twice or got lost. " +
		"In a Redis and a PostgreSQL of yours it works under names of its own and removes them. " +
		"Exit code 0 means that Doorbuster's rows are clean, those that must fail did, and those that must hold did; 1 that one of those did not, or did not run; " +
		"3 that a row of Doorbuster's is not clean, or fair_lock, which is ours too, did not hold; 4 that Redis or PostgreSQL cannot be had. docs/lab.md explains every row.\n\n" +
		"Rows: " + strings.Join(contest.Names(), ", ") + "."
}

// Run runs the rows.
func (c *labCmd) Run(ctx context.Context, s *session) error {
	switch {
	case c.Timeout <= 0:
		return &usageError{message: "--timeout: the time is not positive", hint: "write it like 5m"}
	case c.Buyers < 1:
		return &usageError{message: "--buyers: the crowd is nobody", hint: "write a number, at least twice --stock; 2000 is the default"}
	case c.Stock < 1:
		return &usageError{message: "--stock: there is nothing to sell", hint: "write a number of units; 100 is the default"}
	}
	page, err := newPage(c.HTML)
	if err != nil {
		return err
	}
	defer page.discard()
	o := contest.Options{
		Buyers: c.Buyers, Stock: c.Stock, Seed: c.Seed, Only: c.Only, Timeout: c.Timeout,
		RedisURL: c.Redis, PostgresURL: c.Postgres, Version: currentVersion(),
	}
	end := c.follow(s, &o)
	report, err := contest.Run(ctx, o)
	end()
	if report != nil && len(report.Rows) > 0 {
		err = errors.Join(err, c.print(s, report, page))
	}
	switch {
	case errors.Is(err, contest.ErrLate):
		return &sale.Error{Code: sale.CodeIllegalState, Message: err.Error(), Hint: "give it more time with --timeout, or fewer rows with --only"}
	case err != nil:
		return err
	case len(report.Broken()) > 0:
		return brokenError{hint: "the report names what breaks it; the logs stay in " + report.Kept}
	case len(report.Missing) > 0:
		return &sale.Error{
			Code: sale.CodeIllegalState, Message: "not everything was shown: " + strings.Join(report.Missing, ", "),
			Hint: "the report says why; where an accident did not happen, it needs a larger crowd and stock: try another --seed, more --buyers, more --stock",
		}
	}
	return nil
}

// follow lets a terminal show how far the lab has come, one line a row. The returned
// function clears what stands there of a row that did not come to its end.
func (c *labCmd) follow(s *session, o *contest.Options) (end func()) {
	f, ok := s.Err.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	const clearLine = "\r\x1b[2K"
	o.Begun = func(name string) { _, _ = fmt.Fprintf(f, "%-25s …", name) }
	o.Ended = func(row *contest.Row) { _, _ = fmt.Fprintf(f, clearLine+"%-25s %s\n", row.Name, plain(row.Summary())) }
	return func() { _, _ = io.WriteString(f, clearLine) }
}

func (c *labCmd) print(s *session, r *contest.Report, page *page) error {
	var err error
	if c.JSON {
		err = writeJSON(s.Out, r)
	} else {
		err = r.WriteText(s.Out)
	}
	if err != nil || page == nil {
		return err
	}
	if err = page.write(func(w io.Writer) error { return contest.WriteHTML(w, r) }); err != nil {
		return err
	}
	return say(s.Err, "the report is in %s", plain(page.path))
}

// page is a file that is written beside its place and moved there when it is whole. It is
// made before the work whose outcome it shall hold, so that a wrong path shows at once.
type page struct {
	path string
	temp *os.File
}

// newPage returns no page for no path.
func newPage(path string) (*page, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no page is wanted
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, &usageError{message: "no file can be written there: " + err.Error(), hint: "name a file in a folder that is there and is yours"}
	}
	return &page{path: path, temp: temp}, nil
}

func (p *page) write(draw func(io.Writer) error) error {
	err := errors.Join(draw(p.temp), p.temp.Chmod(0o644), p.temp.Close())
	if err == nil {
		err = os.Rename(p.temp.Name(), p.path)
	}
	return err
}

// discard removes what was not written.
func (p *page) discard() {
	if p != nil {
		_ = p.temp.Close()
		_ = os.Remove(p.temp.Name())
	}
}

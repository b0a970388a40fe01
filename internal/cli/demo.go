package cli

import (
	"context"
	"errors"

	"github.com/doorbuster/doorbuster/internal/lab"
)

// demoCmd runs a whole sale with a crowd.
type demoCmd struct {
	Buyers   int    `default:"10000" help:"Buyers at the door in one instant."`
	Stock    int    `default:"100" help:"Units on sale."`
	Seed     uint64 `help:"Draw the same crowd as a demo that printed this seed; 0 draws another one."`
	Keep     bool   `help:"Go on serving when the sale is over, until Ctrl-C, and print the address. The folder stays."`
	Redis    string `placeholder:"URL" help:"Sell on the fast path, through this Redis."`
	Postgres string `placeholder:"URL" help:"Keep the ledger in this PostgreSQL database; the sale stays there, closed."`
	jsonFlag
}

// Help returns the long help.
func (c *demoCmd) Help() string {
	return "Starts a server on an embedded ledger in a temporary folder, opens a sale, and sends a crowd at it over HTTP in one instant: " +
		"double clicks, impatient retries, buyers who want two, who pay, pay twice, cancel, let the hold run out or pay too late, " +
		"and latecomers who get what came back. It ends by itself in under a minute, when every unit is paid, " +
		"and compares what buyers were told with the server and with an audit. Exit code 3 means that a promise is broken; the ledger then stays."
}

// Run runs the demo.
func (c *demoCmd) Run(ctx context.Context, s *session) error {
	if c.Buyers < 1 || c.Stock < 1 {
		return &usageError{message: "a sale needs buyers and stock", hint: "write --buyers and --stock as whole numbers from 1"}
	}
	report, err := lab.Demo(ctx, lab.DemoOptions{
		Buyers: c.Buyers, Stock: c.Stock, Seed: c.Seed, Keep: c.Keep, JSON: c.JSON, Progress: terminal(s, c.JSON),
		RedisURL: c.Redis, LedgerURL: c.Postgres,
	}, s.Out)
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, lab.ErrBroken):
		return brokenError{hint: "the table names what breaks it; the ledger stays in " + report.Dir}
	}
	// Shown whole, with where it happened and the end of the server's log: what
	// is wrong is not this command line but the demo, whatever its cause says.
	return errors.New(err.Error())
}

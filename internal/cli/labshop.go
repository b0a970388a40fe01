package cli

import (
	"context"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
)

// labShopCmd is one process of a strategy, as `doorbuster lab` starts it.
type labShopCmd struct {
	Strategy string `required:"" help:"What sells."`
	Sale     string `required:"" help:"The id of the sale, which was prepared."`
	Dir      string `required:"" type:"existingdir" help:"Where the address is written, to api.addr."`
	Listen   string `default:"127.0.0.1:0" help:"Address to listen on."`
	// Passwords do not belong on a command line that every user of the machine can read.
	Redis    string `env:"DOORBUSTER_LAB_REDIS" placeholder:"URL" help:"The Redis of the strategies that use one."`
	Postgres string `env:"DOORBUSTER_LAB_POSTGRES" required:"" placeholder:"URL" help:"The database of the books."`
	Faulty   bool   `help:"This process is the one that crashes or pauses."`
}

// Run sells until it is interrupted.
func (c *labShopCmd) Run(ctx context.Context) error {
	return strategy.Serve(ctx, strategy.Options{
		Place:  strategy.Place{Name: c.Strategy, Sale: c.Sale, RedisURL: c.Redis, PostgresURL: c.Postgres},
		Listen: c.Listen, Dir: c.Dir, Faulty: c.Faulty,
	})
}

package bench

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/probe"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Options say what is measured, and with what means.
type Options struct {
	URLs []string // of the instances that sell the sale; at least one
	// Key is an API key with the scope admin, and shop where buyers pay.
	Key     string
	Sale    Sale
	Name    string // of the profile
	Profile traffic.Profile
	Conduct buyers.Conduct
	// Cast returns so many buyers; run names the run.
	Cast func(n int, run string) (*buyers.Cast, error)
	Seed uint64 // draws the crowd; 0 draws a seed

	Connections int           // for visits, 0: as many as files allow, at most 2,000
	Timeout     time.Duration // for one answer, 0: 10 s

	// Probe says what else is watched; Key, Sale and Start are filled in.
	Probe probe.Options

	Version string // of this program
	Command string // the words after doorbuster, without secrets
	// Progress is the terminal on which is drawn how far the run has come; nil is none.
	Progress io.Writer
}

// Sale says what is sold.
type Sale struct {
	// ID is a sale that exists; its other settings are its own then. Empty makes one.
	ID    string
	Stock int64
	Path  string        // fast, direct; empty: the server's own choice
	Hold  time.Duration // in whole seconds
	Limit int64         // units a buyer
	In    time.Duration // from opening the sale to its start, without Profile.Before
	Keep  bool          // a sale that was made stays open in the end
}

const (
	price    = 49_900
	currency = "EUR"
	item     = "unit"
	// saleLength is how long a sale that was made would sell, were it not closed.
	saleLength = 24 * time.Hour
	// lead is how long after its start a sale's crowd comes: a clock that was read a
	// little wrong makes nobody early.
	lead = 25 * time.Millisecond
)

func (o *Options) fill() error {
	switch {
	case len(o.URLs) == 0:
		return errors.New("bench: there is no server")
	case o.Cast == nil:
		return errors.New("bench: there are no buyers")
	case o.Sale.ID == "" && (o.Sale.Stock < 1 || o.Sale.Limit < 1 || o.Sale.Hold < time.Second || o.Sale.In < 0):
		return errors.New("bench: a sale has units, a limit and a hold")
	}
	if err := o.Conduct.Check(); err != nil {
		return wrong(err)
	}
	for o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) //nolint:gosec // short, to be typed again; not a secret
	}
	return nil
}

// wrong returns the error of a crowd that cannot be.
func wrong(err error) error { return sale.Invalid("crowd", err.Error(), "see doorbuster bench --help") }

// grain returns the slot of the record for a crowd that comes within a time: some
// hundred slots, and none so short that it tells of the machine's timers only.
func grain(within time.Duration) time.Duration {
	const slots = 200
	for _, slot := range []time.Duration{
		20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
	} {
		if within <= slots*slot {
			return slot
		}
	}
	return 5 * time.Second
}

// runName returns a name that no other run has, made of what may stand in a sale's
// id.
func runName(now time.Time) string {
	return fmt.Sprintf("bench-%x%02x", now.UnixMilli(), rand.Uint32()&0xff) //nolint:gosec // a name, not a secret
}

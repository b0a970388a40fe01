package strategy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
	"github.com/doorbuster/doorbuster/internal/servers"
	"github.com/doorbuster/doorbuster/internal/testenv"
)

const stock = 100

// outcome is what the accidents of a run came to.
type outcome struct {
	Oversold, Undersold, Duplicates, Lost int64
	Told                                  map[string]int64
	Dead                                  int // shops that killed themselves
	Rush                                  time.Duration
}

func (o *outcome) column(c strategy.Column) int64 {
	switch c {
	case strategy.Oversold:
		return o.Oversold
	case strategy.Undersold:
		return o.Undersold
	case strategy.Duplicates:
		return o.Duplicates
	case strategy.Lost:
		return o.Lost
	}
	panic("no such column: " + c)
}

// expected reports whether a strategy has done with the stock what is said of it.
func (o *outcome) expected(i strategy.Info) bool {
	if i.Expect == strategy.Fails {
		return o.column(i.Accident) > 0
	}
	return o.Oversold == 0
}

// berths bounds the runs at once: more would starve each other.
var berths = make(chan struct{}, 1)

// run sells a stock by a strategy to a crowd, from two processes.
func run(t *testing.T, name string, buyers int) *outcome {
	t.Helper()
	berths <- struct{}{}
	defer func() { <-berths }()
	s, err := strategy.Find(name)
	require.NoError(t, err)
	place := strategy.Place{Name: name, Sale: "lab-test", PostgresURL: testenv.Postgres(t).URL}
	if s.Redis {
		place.RedisURL = testenv.Redis(t, "appendonly no").URL
	}
	w, err := strategy.Open(t.Context(), place)
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Prepare(t.Context(), stock))

	shops := []*shop{open(t, place, "--faulty"), open(t, place)}
	c := &crowd{shops: shops, told: map[string]int64{}}
	start := time.Now()
	c.rush(buyers)
	rush := time.Since(start)
	late := c.linger(t.Context())

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	books, err := w.Recount(ctx)
	require.NoError(t, err)
	o := &outcome{
		Oversold: max(0, books.Sold()-stock), Undersold: max(0, stock-books.Sold()),
		Duplicates: books.Duplicates(), Lost: c.lost(books), Told: c.told, Rush: rush,
	}
	for _, one := range shops {
		if one.close(t) {
			o.Dead++
		}
	}
	require.NoError(t, w.Discard(ctx))
	t.Logf("%-20s sold %d oversold %d undersold %d duplicates %d lost %d, dead %d, rush %v, late %d, told %v",
		name, books.Sold(), o.Oversold, o.Undersold, o.Duplicates, o.Lost, o.Dead, rush.Round(time.Millisecond), late, c.told)
	return o
}

// shop is one process.
type shop struct {
	url  string
	proc *servers.Process
}

func open(t *testing.T, p strategy.Place, flags ...string) *shop {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{
		"lab-shop", "--strategy", p.Name, "--sale", p.Sale, "--dir", dir, "--postgres", p.PostgresURL, "--redis", p.RedisURL,
	}, flags...)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.Command(testenv.Binary(t), args...) //nolint:noctx,gosec // our own binary; stopped by close
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := servers.Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	t.Cleanup(func() {
		_ = proc.Stop(10 * time.Second)
		if said, _ := os.ReadFile(log.Name()); len(said) > 0 {
			t.Logf("%s said: %s", p.Name, said)
		}
	})
	var address []byte
	err = servers.Await(t.Context(), "the address of the shop", func() error {
		if !proc.Running() {
			return errors.New("it has ended")
		}
		address, err = os.ReadFile(filepath.Join(dir, strategy.AddressFile))
		return err
	})
	require.NoError(t, err)
	return &shop{url: "http://" + strings.TrimSpace(string(address)), proc: proc}
}

// close stops the shop and reports whether it had ended before.
func (s *shop) close(t *testing.T) (dead bool) {
	t.Helper()
	dead = !s.proc.Running()
	if !dead {
		require.NoError(t, s.proc.Stop(20*time.Second))
		require.True(t, s.proc.State().Success(), "%v", s.proc.State())
	}
	return dead
}

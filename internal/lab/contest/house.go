package contest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
	"github.com/doorbuster/doorbuster/internal/servers"
)

// house is what sells in one row.
type house interface {
	// open puts the stock up for sale under an id and returns the addresses of the
	// processes that sell it.
	open(ctx context.Context) ([]string, error)
	// kill ends one of two processes as a crash does.
	kill() error
	// recount reads the orders from the books, after the last buyer has gone, and
	// says what else it has found.
	recount(ctx context.Context) ([]entry, findings, error)
	// close stops the processes and removes what was made. It may be called after
	// an open that failed.
	close(ctx context.Context) error
}

// findings are what a house has found besides orders.
type findings struct {
	broken int64 // facts that break a promise, by its own audit
	note   string
	struck int64 // how often the fault happened that its processes do to themselves
}

// saleName is the id of the sale in a house's books, which are its own.
const saleName = "lab"

const closeTime = 20 * time.Second

// shops is a house in which a strategy sells.
type shops struct {
	lab  *lab
	info strategy.Info

	world *strategy.World
	procs []*servers.Process
}

// database is the one in which strategies have their schemas.
const database = "strategies"

func (h *shops) place() strategy.Place {
	return strategy.Place{
		Name: h.info.Name, Sale: h.lab.ground.name, RedisURL: h.lab.ground.redisURL, PostgresURL: h.lab.strategiesURL,
	}
}

func (h *shops) open(ctx context.Context) ([]string, error) {
	var err error
	if h.lab.strategiesURL == "" {
		if h.lab.strategiesURL, err = h.lab.ground.database(ctx, database); err != nil {
			return nil, err
		}
	}
	if h.world, err = strategy.Open(ctx, h.place()); err != nil {
		return nil, err
	}
	if err = h.world.Prepare(ctx, h.lab.Stock); err != nil {
		return nil, err
	}
	var addrs []string
	for i := range 2 {
		addr, err := h.start(ctx, i)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// start starts one process; the second one is the faulty one. URLs with passwords go
// through the environment, where other users of the machine do not see them.
func (h *shops) start(ctx context.Context, i int) (string, error) {
	dir, err := h.lab.folder(fmt.Sprintf("%s-%d", h.info.Name, i+1))
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(dir, logName)) //nolint:gosec // in a folder of our own
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	p := h.place()
	args := []string{"lab-shop", "--strategy", p.Name, "--sale", p.Sale, "--dir", dir}
	if i > 0 {
		args = append(args, "--faulty")
	}
	cmd := exec.Command(h.lab.Binary, args...) //nolint:gosec,noctx // our own binary; it is stopped with a grace time
	cmd.Env = append(servers.PlainEnvironment(), "DOORBUSTER_LAB_REDIS="+p.RedisURL, "DOORBUSTER_LAB_POSTGRES="+p.PostgresURL)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	proc, err := servers.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return "", err
	}
	h.procs = append(h.procs, proc)
	var addr string
	err = servers.Await(ctx, "the shop is open", func() error {
		raw, notYet := os.ReadFile(filepath.Join(dir, strategy.AddressFile)) //nolint:gosec // in a folder of our own
		addr = strings.TrimSpace(string(raw))
		if notYet != nil && !proc.Running() {
			return servers.ErrEnded
		}
		return notYet
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, tailOf(dir))
	}
	return addr, err
}

// kill does nothing: what is done to a strategy it does to itself, where it hurts.
func (h *shops) kill() error { return nil }

func (h *shops) recount(ctx context.Context) ([]entry, findings, error) {
	books, err := h.world.Recount(ctx)
	if err != nil {
		return nil, findings{}, err
	}
	entries := make([]entry, 0, len(books.Orders))
	for i := range books.Orders {
		o := &books.Orders[i]
		entries = append(entries, entry{id: o.ID, buyer: o.Buyer, units: o.Quantity(), live: o.Live})
	}
	return entries, findings{struck: books.Struck}, nil
}

func (h *shops) close(ctx context.Context) error {
	var err error
	for _, p := range h.procs {
		err = errors.Join(err, p.Stop(closeTime))
	}
	if h.world != nil {
		err = errors.Join(err, h.world.Discard(ctx))
		h.world.Close()
	}
	return err
}

const (
	logName = "server.log"
	logTail = 2 << 10
)

// tailOf returns the end of the log of a process that runs in a folder.
func tailOf(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, logName)) //nolint:gosec // in a folder of our own
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(raw[max(0, len(raw)-logTail):]))
}

package strategy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// AddressFile is where a shop writes, in its folder, the address on which it listens, as
// `doorbuster serve` does. It is there when the shop is open.
const AddressFile = "api.addr"

// stopTime is how long requests that have begun may take when a shop closes.
const stopTime = patience + time.Second

// Options are those of one process.
type Options struct {
	Place
	Listen string // empty is a free port on loopback
	Dir    string // where AddressFile is written
	Faulty bool   // this process is the one to which Info.Fault is done
}

// Serve sells in one process, from a world that was prepared, until ctx ends; then it
// answers what it has accepted and returns nil. Errors of the options are those of
// Open.
func Serve(ctx context.Context, o Options) error {
	w, err := Open(ctx, o.Place)
	if err != nil {
		return err
	}
	defer w.Close()
	if err = w.warm(ctx); err != nil {
		return err
	}
	w.faulty = o.Faulty
	shop, err := w.open(w)
	if err != nil {
		return err
	}
	if c, ok := shop.(io.Closer); ok {
		defer func() { _ = c.Close() }() // what could not be brought home is missed in the recount
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(w, shop), ReadHeaderTimeout: workTime, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	if err := announce(o.Dir, l.Addr().String()); err != nil {
		return errors.Join(err, server.Close(), <-ended)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer done()
	if err := server.Shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close() // connections over which nobody has asked for anything
}

// announce writes the address in one step: whoever sees the file sees all of it.
func announce(dir, address string) error {
	path := filepath.Join(dir, AddressFile)
	temp := path + ".new"
	err := os.WriteFile(temp, []byte(address+"\n"), 0o644) //nolint:gosec // no secret
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("the address cannot be written: %w", err)
	}
	return nil
}

package sqliteledger

import (
	"context"
	"errors"
	"sync"
)

var errClosed = errors.New("sqliteledger: the store is closed")

// pool lends connections, longest waiting caller first. A slot that holds none
// is opened by whoever gets it, so a connection that broke is replaced at its
// next use.
type pool struct {
	open   func(context.Context) (*conn, error)
	slots  chan *conn // a waiting receiver is served in order of arrival
	closed chan struct{}
	once   sync.Once
	err    error // of close
}

func newPool(size int, open func(context.Context) (*conn, error)) *pool {
	p := &pool{open: open, slots: make(chan *conn, size), closed: make(chan struct{})}
	for range size {
		p.slots <- nil
	}
	return p
}

// with runs fn with a connection of its own and takes it back, whatever fn does.
func (p *pool) with(ctx context.Context, fn func(*conn) error) error {
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer func() { p.slots <- p.kept(c) }()
	return fn(c)
}

func (p *pool) take(ctx context.Context) (*conn, error) {
	select {
	case <-p.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	select {
	case c := <-p.slots:
		if c != nil {
			return c, nil
		}
		c, err := p.open(ctx)
		if err != nil {
			p.slots <- nil
			return nil, err
		}
		return c, nil
	case <-p.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// kept returns the connection if it can be used again, else nil.
func (p *pool) kept(c *conn) *conn {
	c.mu.Lock()
	broken := c.broken
	c.mu.Unlock()
	if !broken {
		return c
	}
	_ = c.close() // it has told its error to whoever met it
	return nil
}

// close waits for every connection to come back and closes it. Callers that
// still wait are refused; so is everyone after.
func (p *pool) close() error {
	p.once.Do(func() {
		close(p.closed)
		var errs []error
		for range cap(p.slots) {
			if c := <-p.slots; c != nil {
				errs = append(errs, c.close())
			}
		}
		p.err = errors.Join(errs...)
	})
	return p.err
}

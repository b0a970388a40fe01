package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// do sends a call until it is answered, refused for good, or may not be tried
// again. Every error it returns is an *Error.
func (c *Client) do(ctx context.Context, k call) (answer, error) {
	unsure := false
	for try := 1; ; try++ {
		a, err := c.attempt(ctx, k)
		a.tries, a.unsure = try, unsure
		if err == nil {
			return a, nil
		}
		err.Tries = try
		unsure = unsure || CodeError(err.Code).Unsure()
		if ctx.Err() != nil {
			return a, ended(ctx, err)
		}
		if try == c.retry.Tries || !repeatable(err, k.safety) {
			return a, err
		}
		if !wait(ctx, c.pause(try, err.RetryAfter)) {
			return a, tooLong(ctx, err)
		}
	}
}

// repeatable reports whether a failed try may be followed by another.
func repeatable(e *Error, s safety) bool {
	code := CodeError(e.Code)
	if code == ErrUnreachable || code == ErrBusy || code == ErrRateLimited {
		return true // nothing was done
	}
	return s == again && (code == ErrNoAnswer || passing(e.Status))
}

// passing reports whether a status, sent by the server or by something between,
// tells of trouble that may pass.
func passing(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// pause returns how long to wait after the try with this number, or a negative
// duration if the server asks for more than the caller allows.
func (c *Client) pause(try int, asked time.Duration) time.Duration {
	if asked > c.retry.MaxPause {
		return -1
	}
	p := c.retry.MaxPause
	if shift := try - 1; shift < 20 {
		p = min(p, c.retry.Pause<<shift)
	}
	// Half fixed, half random: a crowd that was refused together comes back spread.
	p = p/2 + rand.N(p/2+1) //nolint:gosec // spreading tries needs no secrecy
	if asked > 0 {
		// Never earlier than asked, and not all at that instant.
		p = asked + p/2
	}
	return p
}

// wait waits for d and reports whether it did: not if d is negative, reaches
// past the deadline of ctx, or ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); d < 0 || ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tooLong is the error of a call whose next try would come too late.
func tooLong(ctx context.Context, last *Error) error {
	if ctx.Err() != nil {
		return ended(ctx, last)
	}
	return last
}

// ended marks the last error of a call whose context is over.
func ended(ctx context.Context, last *Error) error {
	if cause := context.Cause(ctx); !errors.Is(last.Err, cause) {
		last.Err = errors.Join(cause, last.Err)
	}
	return last
}

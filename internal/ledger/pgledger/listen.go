package pgledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

const (
	// pingEvery is how long silence is believed before the connection is tried.
	pingEvery = 10 * time.Second
	// firstRedial and longestRedial bound the pause before a lost connection is made
	// anew.
	firstRedial   = 50 * time.Millisecond
	longestRedial = 5 * time.Second
)

// payloads tells spans to other stores: sale, from, to, and who says so. They are
// some sixty bytes long; PostgreSQL takes up to 7999.
func payloads(spans []ledger.Span, origin string) []string {
	return column(spans, func(s *ledger.Span) string {
		return fmt.Sprintf("%d %d %d %s", s.Sale, s.From, s.To, origin)
	})
}

// parsePayload reads what payloads made; anything else is not understood.
func parsePayload(payload string) (s ledger.Span, origin string, ok bool) {
	parts := strings.Fields(payload)
	const members = 4
	if len(parts) != members {
		return s, "", false
	}
	n, err := strconv.ParseUint(parts[0], 10, 32)
	from, fromErr := strconv.ParseUint(parts[1], 10, 63)
	to, toErr := strconv.ParseUint(parts[2], 10, 63)
	if errors.Join(err, fromErr, toErr) != nil || from > to {
		return s, "", false
	}
	return ledger.Span{Sale: sale.Number(n), From: from, To: to}, parts[3], true
}

// Listen implements ledger.Notifier on a connection of its own. What this store has
// committed itself is left out, since its callers know; so a transaction whose
// answer was lost is told to others only. A lost connection is made anew with
// growing pauses; what was committed meanwhile is not heard of.
func (s *Store) Listen(ctx context.Context, fn func(ledger.Span)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the function
		select {
		case <-s.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	for wait := firstRedial; ; wait = min(2*wait, longestRedial) {
		heard := s.listen(ctx, fn)
		select {
		case <-s.closed:
			return errClosed
		default:
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if heard {
			wait = firstRedial
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2)) //nolint:gosec // no secret
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// listen listens until the connection is lost, and reports whether there was one.
func (s *Store) listen(ctx context.Context, fn func(ledger.Span)) (connected bool) {
	conn, err := pgx.ConnectConfig(ctx, s.connect.Copy())
	if err != nil {
		return false
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.channel}.Sanitize()); err != nil {
		return false
	}
	for {
		payload, err := next(ctx, conn)
		if err != nil {
			return true
		}
		if span, origin, ok := parsePayload(payload); ok && origin != s.origin {
			fn(span)
		}
	}
}

// next waits for a notification. Silence is broken by asking the server whether it
// is still there.
func next(ctx context.Context, conn *pgx.Conn) (payload string, err error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, pingEvery)
		n, err := conn.WaitForNotification(quiet)
		cancel()
		if n != nil {
			return n.Payload, nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return "", err
		}
		asked, cancel := context.WithTimeout(ctx, pingEvery)
		err = conn.Ping(asked)
		cancel()
		if err != nil {
			return "", err
		}
	}
}

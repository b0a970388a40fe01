package obs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// warningsPerSecond is how many warnings of one text are written in a second: a crowd
// meets the same trouble at once, and must not fill a disk with it. What was left out
// is counted in the next line.
const warningsPerSecond = 10

// sparing hands on all but warnings that come too often. Errors are never left out.
type sparing struct {
	slog.Handler
	said *said
}

// said is how often each text was written of late. Texts are constants of the program,
// so there are few.
type said struct {
	mu    sync.Mutex
	texts map[string]*burst
}

type burst struct {
	since   time.Time
	written int
	leftOut int // since the last line that was written
}

func spare(h slog.Handler) slog.Handler {
	return sparing{h, &said{texts: make(map[string]*burst)}}
}

// Handle implements slog.Handler.
func (h sparing) Handle(ctx context.Context, r slog.Record) error { //nolint:gocritic // the interface has it by value
	if r.Level != slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	write, leftOut := h.said.again(r.Message, r.Time)
	if !write {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", leftOut))
	}
	return h.Handler.Handle(ctx, r)
}

// again reports whether a text is to be written again, and how often it was not since
// it was.
func (s *said) again(text string, now time.Time) (write bool, leftOut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.texts[text]
	if b == nil {
		b = &burst{since: now}
		s.texts[text] = b
	}
	if age := now.Sub(b.since); age < 0 || age >= time.Second {
		b.since, b.written = now, 0
	}
	if b.written == warningsPerSecond {
		b.leftOut++
		return false, 0
	}
	b.written++
	leftOut, b.leftOut = b.leftOut, 0
	return true, leftOut
}

// WithAttrs implements slog.Handler.
func (h sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparing{h.Handler.WithAttrs(attrs), h.said}
}

// WithGroup implements slog.Handler.
func (h sparing) WithGroup(name string) slog.Handler {
	return sparing{h.Handler.WithGroup(name), h.said}
}

package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// VerifyOptions choose what a file is held against.
type VerifyOptions struct {
	// Head is a head hash of this sale, 64 hexadecimal digits, that was published
	// elsewhere at any time: it must be the hash of some row, and then no row up
	// to it was changed since. Empty: not compared, and a file whose author
	// rewrote everything consistently cannot be told from a true one.
	Head string
	// Overdue and Details are as in Options; holds are judged by the time of the
	// last journal row.
	Overdue time.Duration
	Details int
}

// FileError says that an export cannot be read: damaged, cut short, or not an
// export at all.
type FileError struct {
	Line int // from 1
	Err  error
}

// Error names the line and the fault.
func (e *FileError) Error() string { return fmt.Sprintf("audit: line %d: %v", e.Line, e.Err) }

// Unwrap returns the fault.
func (e *FileError) Unwrap() error { return e.Err }

// ErrCutShort says that an export ends before its trailer.
var ErrCutShort = errors.New("the file ends without its trailer")

var (
	errLongLine   = fmt.Errorf("the line is longer than %d bytes", maxLine)
	errNoNewline  = errors.New("the line does not end")
	errAfterEnd   = errors.New("the trailer is not the last line")
	errMembers    = errors.New("a line holds exactly one of header, terms, row, order, refund, payment, holder, trailer")
	errOrder      = errors.New("lines come in the order header, terms, row, order, refund, payment, holder, trailer")
	errTrailer    = errors.New("the trailer is not written as an export writes it")
	errTrailing   = errors.New("something follows the object")
	errBothBodies = errors.New("the row has two bodies")
)

// Verify judges an export from the file alone: its own digest and counts, the
// chain, and every rule that Run applies to the ledger. A broken promise or a
// changed file is in the report; what cannot be read is a *FileError. Memory is
// as for Run; no line may exceed 1 MiB.
func Verify(ctx context.Context, r io.Reader, o VerifyOptions) (Report, error) {
	c := newRecount(Options{Overdue: o.Overdue, Details: o.Details})
	checks := append(ledgerRules(), fileDigest, fileCounts)
	if o.Head != "" {
		wanted, err := parseDigest(o.Head)
		if err != nil {
			return Report{}, fmt.Errorf("audit: the expected head: %w", err)
		}
		c.wanted = wanted
		checks = append(checks, fileHead)
	}
	f := &file{in: bufio.NewReaderSize(r, 1<<16), to: c}
	if err := f.read(ctx); err != nil {
		return Report{}, err
	}
	c.finish()
	f.finish()
	if o.Head != "" {
		c.finishHead()
	}
	return Report{At: c.facts.at, Sales: []SaleReport{c.report(checks)}}, nil
}

func (r *recount) finishHead() {
	r.count(fileHead)
	r.figures.Anchor = r.anchor
	if r.anchor == 0 {
		r.broke(fileHead, place{}, "no row carries the hash %x", r.wanted)
	}
}

// file reads an export into a recount.
type file struct {
	in      *bufio.Reader
	to      *recount
	line    int
	stage   stage
	sum     [sha256.Size]byte // of every byte before the trailer
	counts  lineCounts
	trailer trailerLine
}

// stage is how far the reading has come; lines only lead forward.
type stage int

const (
	atStart stage = iota
	atHeader
	atTerms
	atRows
	atOrders
	atRefunds
	atPayments
	atHolders
	atEnd
)

// pollLines is after how many lines the reader looks at its context.
const pollLines = 1024

func (f *file) read(ctx context.Context) error {
	sum := sha256.New()
	for {
		if f.line%pollLines == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		f.line++
		raw, err := f.next()
		switch {
		case errors.Is(err, errLongLine):
			return f.fault(err)
		case errors.Is(err, io.EOF):
			if len(raw) > 0 {
				return f.fault(errNoNewline)
			}
			if f.stage != atEnd {
				return f.fault(ErrCutShort)
			}
			return nil
		case err != nil:
			return fmt.Errorf("audit: read line %d: %w", f.line, err)
		case f.stage == atEnd:
			return f.fault(errAfterEnd)
		}
		if err := f.take(raw); err != nil {
			return f.fault(err)
		}
		if f.stage == atEnd {
			sum.Sum(f.sum[:0])
		}
		sum.Write(raw)
	}
}

// next returns the next line with its end, valid until the next call.
func (f *file) next() ([]byte, error) {
	raw, err := f.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return raw, err
	}
	long := bytes.Clone(raw)
	for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxLine {
		raw, err = f.in.ReadSlice('\n')
		long = append(long, raw...)
	}
	if len(long) > maxLine {
		return nil, errLongLine
	}
	return long, err
}

func (f *file) fault(err error) error { return &FileError{Line: f.line, Err: err} }

func (f *file) take(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var l line
	if err := dec.Decode(&l); err != nil {
		return errors.New(err.Error()) // not wrapped: an id with a flaw is no missing order
	}
	if dec.InputOffset() != int64(len(raw)-1) {
		return errTrailing
	}
	if l.members() != 1 {
		return errMembers
	}
	switch next := l.stage(); {
	case f.stage == atStart && next != atHeader, f.stage != atStart && next == atHeader, next < f.stage:
		return errOrder
	default:
		f.stage = next
	}
	if l.Trailer != nil {
		return f.end(l.Trailer, raw)
	}
	return f.pass(&l)
}

func (l *line) members() int {
	n := 0
	for _, there := range [...]bool{
		l.Header != nil, l.Terms != nil, l.Row != nil, l.Order != nil,
		l.Refund != nil, l.Payment != nil, l.Holder != nil, l.Trailer != nil,
	} {
		if there {
			n++
		}
	}
	return n
}

func (l *line) stage() stage {
	switch {
	case l.Header != nil:
		return atHeader
	case l.Terms != nil:
		return atTerms
	case l.Row != nil:
		return atRows
	case l.Order != nil:
		return atOrders
	case l.Refund != nil:
		return atRefunds
	case l.Payment != nil:
		return atPayments
	case l.Holder != nil:
		return atHolders
	}
	return atEnd
}

// pass hands the fact of one line to the recount.
func (f *file) pass(l *line) error {
	switch {
	case l.Header != nil:
		facts, err := l.Header.facts()
		if err != nil {
			return err
		}
		return f.to.open(facts)
	case l.Terms != nil:
		f.counts.Terms++
		t, err := l.Terms.terms()
		if err != nil {
			return err
		}
		return f.to.terms(t)
	case l.Row != nil:
		f.counts.Rows++
		if l.Row.Raw != nil && l.Row.Body != "" {
			return errBothBodies
		}
		return f.to.row(l.Row.entry(f.to.facts.number))
	case l.Order != nil:
		f.counts.Orders++
		return f.to.order(l.Order.order())
	case l.Refund != nil:
		f.counts.Refunds++
		refund, err := l.Refund.refund()
		if err != nil {
			return err
		}
		return f.to.refund(refund)
	case l.Payment != nil:
		f.counts.Payments++
		return f.to.payment(l.Payment.payment())
	}
	f.counts.Holders++
	return f.to.holder(&ledger.Holder{User: l.Holder.User, Live: l.Holder.Live, Refunded: l.Holder.Refunded})
}

// end keeps the trailer, which must be written in the one way: it is the only
// line that no digest covers.
func (f *file) end(t *trailerLine, raw []byte) error {
	canonical, err := json.Marshal(line{Trailer: t})
	if err != nil {
		return err
	}
	if !bytes.Equal(append(canonical, '\n'), raw) {
		return errTrailer
	}
	f.trailer = *t
	return nil
}

func (f *file) finish() {
	f.to.count(fileDigest)
	if f.sum != f.trailer.SHA256 {
		f.to.broke(fileDigest, place{}, "the bytes before the trailer give %x, the trailer says %x", f.sum, f.trailer.SHA256)
	}
	f.to.count(fileCounts)
	if f.counts != f.trailer.lineCounts {
		f.to.broke(fileCounts, place{}, "the file holds %+v, the trailer says %+v", f.counts, f.trailer.lineCounts)
	}
}

package audit

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// Exported says what an export holds. Head and Seq are worth publishing: a file
// that was rewritten afterwards cannot contain them.
type Exported struct {
	Number sale.Number `json:"number"`
	Slug   string      `json:"sale"`
	Seq    uint64      `json:"journal_rows"`
	Head   string      `json:"head"`   // hash of the last journal row, hexadecimal
	SHA256 string      `json:"sha256"` // of the file without its last line
	Lines  int64       `json:"lines"`
}

// Export writes one sale, seen at one instant, as JSON Lines: see the package
// comment. It streams, and it never writes the sale's key. After an error the
// output is incomplete, has no trailer, and is refused by Verify.
func Export(ctx context.Context, src Source, n sale.Number, w io.Writer) (Exported, error) {
	now, err := src.Now(ctx)
	if err != nil {
		return Exported{}, fmt.Errorf("audit: read the ledger's time: %w", err)
	}
	out := newWriter(w)
	err = src.Snapshot(ctx, func(r ledger.Reader) error {
		rec, failed := r.SaleByNumber(ctx, n)
		if failed != nil {
			return failed
		}
		return feed(ctx, r, &rec, now, out)
	})
	if err == nil {
		err = out.close()
	}
	if err != nil {
		return Exported{}, fmt.Errorf("audit: export sale %d: %w", n, err)
	}
	return out.summary, nil
}

// writer is the sink that writes an export.
type writer struct {
	out     *bufio.Writer
	sum     hash.Hash
	enc     *json.Encoder // to out and sum
	counts  lineCounts
	summary Exported
}

func newWriter(w io.Writer) *writer {
	out := &writer{out: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	out.enc = json.NewEncoder(io.MultiWriter(out.out, out.sum))
	out.enc.SetEscapeHTML(false)
	return out
}

func (w *writer) put(l line) error {
	w.summary.Lines++
	return w.enc.Encode(l)
}

func (w *writer) open(f saleFacts) error {
	w.summary.Number, w.summary.Slug = f.number, f.body.Slug
	w.summary.Seq, w.summary.Head = f.seq, fmt.Sprintf("%x", f.head)
	return w.put(line{Header: headerOf(&f)})
}

func (w *writer) terms(t ledger.Terms) error {
	w.counts.Terms++
	return w.put(line{Terms: termsOf(&t)})
}

func (w *writer) row(e *ledger.Entry) error {
	w.counts.Rows++
	return w.put(line{Row: rowOf(e)})
}

func (w *writer) order(o *sale.Order) error {
	w.counts.Orders++
	return w.put(line{Order: orderOf(o)})
}

func (w *writer) refund(f *sale.Refund) error {
	w.counts.Refunds++
	return w.put(line{Refund: refundOf(f)})
}

func (w *writer) payment(p *ledger.PaymentRow) error {
	w.counts.Payments++
	return w.put(line{Payment: paymentOf(p)})
}

func (w *writer) holder(h *ledger.Holder) error {
	w.counts.Holders++
	return w.put(line{Holder: &holderLine{User: h.User, Live: h.Live, Refunded: h.Refunded}})
}

// close writes the trailer.
func (w *writer) close() error {
	t := trailerLine{lineCounts: w.counts}
	w.sum.Sum(t.SHA256[:0])
	w.summary.SHA256 = fmt.Sprintf("%x", t.SHA256)
	if err := w.put(line{Trailer: &t}); err != nil {
		return err
	}
	return w.out.Flush()
}

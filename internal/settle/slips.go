package settle

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

// maxSlips is more than an entry of ours can hold; what is longer is somebody
// else's work and is not taken apart.
const maxSlips = stock.MaxBatch * (64 + sale.MaxUserLen)

// paper is an entry of the tray on its way through the judge.
type paper struct {
	entry stock.Entry
	tasks []task
	open  int // tasks that are not decided
}

// task is one slip to be decided, or one thing to be parked.
type task struct {
	paper *paper
	// attempt is what an authentic slip asks for; its id is zero for anything else.
	attempt ledger.Attempt
	slip    ledger.Slip
	// letter is set once the slip is to be parked.
	letter *ledger.Letter
	mac    stock.MAC
	item   int
	index  int       // in the entry
	tries  int       // refusals by the database so far
	alone  bool      // it has made trouble and goes alone
	due    time.Time // of the next try, by the process's clock; zero: at once
	// failures counts how often it failed alone, without being refused, since others
	// succeeded; failedAt is how many had then.
	failures, failedAt int
}

// reader reads the entries of one lane. It is not safe for concurrent use.
type reader struct {
	lane   stock.Lane
	signer *stock.Signer
	skus   []string
}

func newReader(l stock.Lane, s *sale.Sale) *reader {
	r := &reader{lane: l, signer: stock.NewSigner(s.Key, s.Number), skus: make([]string, len(s.Items))}
	for i := range s.Items {
		r.skus[i] = s.Items[i].SKU
	}
	return r
}

// read takes an entry apart. Whatever is in it, every slip becomes a task: to be
// judged where an instance of ours has made it, else to be parked. Only slips with
// a true MAC are judged or rejected, so who can write to the counter can neither
// mint an order nor spoil one.
func (r *reader) read(e stock.Entry) *paper {
	p := &paper{entry: e}
	if e.Fields == nil {
		return p // trimmed or deleted while it waited: there is nothing to judge
	}
	if n := len(e.Fields[stock.FieldSlips]); n > maxSlips {
		p.tasks = append(p.tasks, r.unreadable(&e, 0, fmt.Errorf("%w: %d bytes of slips", stock.ErrUnreadable, n)))
		return p.sealed()
	}
	slips, err := stock.ReadSlips(r.lane.Sale, &e)
	p.tasks = make([]task, 0, len(slips)+1)
	for i := range slips {
		p.tasks = append(p.tasks, r.task(e.ID, i, &slips[i]))
	}
	if err != nil {
		p.tasks = append(p.tasks, r.unreadable(&e, len(slips), err))
	}
	return p.sealed()
}

// sealed ties the tasks to their paper, once their places in memory are final.
func (p *paper) sealed() *paper {
	for i := range p.tasks {
		t := &p.tasks[i]
		t.paper = p
		if t.letter == nil {
			t.attempt.Slip = &t.slip
		}
	}
	p.open = len(p.tasks)
	return p
}

func (r *reader) task(entry string, i int, s *stock.Slip) task {
	if !r.signer.Check(s) {
		raw := stock.AppendSlip(nil, s)
		place := place(r.lane, entry, i)
		return task{letter: &ledger.Letter{
			ID: letterID("slip", r.lane.Sale, place, raw), Sale: r.lane.Sale, Place: place, Raw: raw,
			Cause: fmt.Sprintf("no instance made this slip: order %s, taken at %s, asked for at %s", s.ID, s.TakenAt.Format(time.RFC3339Nano), s.AskedAt.Format(time.RFC3339Nano)),
		}}
	}
	return task{
		attempt: ledger.Attempt{ID: s.ID, User: s.User, SKU: r.sku(s.Item), Quantity: s.Quantity},
		slip:    ledger.Slip{Epoch: s.Epoch, Terms: s.Terms, TakenAt: s.TakenAt},
		mac:     s.MAC, item: s.Item, index: i,
	}
}

// sku returns the name of an item. One that the sale does not have gets a name
// that no item can have, so that the ledger rejects the slip.
func (r *reader) sku(item int) string {
	if item < len(r.skus) {
		return r.skus[item]
	}
	return "item " + strconv.Itoa(item)
}

func (r *reader) unreadable(e *stock.Entry, from int, err error) task {
	raw := rawEntry(e)
	place := place(r.lane, e.ID, from)
	return task{letter: &ledger.Letter{
		ID: letterID("entry", r.lane.Sale, place, raw), Sale: r.lane.Sale, Place: place, Cause: brief(err), Raw: raw[:min(len(raw), ledger.MaxRaw)],
	}}
}

func place(l stock.Lane, entry string, i int) string {
	return fmt.Sprintf("lane %d, entry %q, slip %d", l.Index, entry, i)
}

// brief bounds the text of an error, which may quote what a stranger wrote.
func brief(err error) string {
	const limit = 500
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// rawEntry writes an entry down as found, for a person: one field a line, quoted.
func rawEntry(e *stock.Entry) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		b = strconv.AppendQuoteToASCII(b, name)
		b = append(b, '=')
		value := e.Fields[name]
		b = strconv.AppendQuoteToASCII(b, value[:min(len(value), ledger.MaxRaw)])
		b = append(b, '\n')
		if len(b) > ledger.MaxRaw {
			break
		}
	}
	return b
}

// refused turns a slip that the database refuses into a letter. It is named by its
// order, so that copies of the slip make one letter.
func (t *task) refused(l stock.Lane, cause error) {
	t.tries, t.failures, t.alone, t.due = 0, 0, false, time.Time{}
	a, s := t.attempt, t.slip
	a.Slip = &s
	raw := stock.AppendSlip(nil, &stock.Slip{ID: a.ID, User: a.User, Item: t.item, Quantity: a.Quantity, MAC: t.mac})
	t.letter = &ledger.Letter{
		ID: letterID("order", l.Sale, a.ID.String(), nil), Sale: l.Sale, Place: place(l, t.paper.entry.ID, t.index), Cause: brief(cause), Raw: raw, Attempt: &a,
	}
}

// letterID derives the id of a letter from what it is about and where that was
// found, so that parking twice makes one.
func letterID(what string, n sale.Number, place string, raw []byte) ledger.LetterID {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "doorbuster letter\n%s\nsale %d\n%s\n", what, n, place)
	h.Write(raw)
	return ledger.LetterID(h.Sum(nil)[:len(ledger.LetterID{})])
}

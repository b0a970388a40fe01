package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

func adminListLetters(ctx context.Context, x *exchange) error {
	q, err := x.query("sale", "state", "after", "limit")
	if err != nil {
		return err
	}
	f, err := letterFilter(q)
	if err != nil {
		return err
	}
	names := make(slugs)
	if slug := q.Get("sale"); slug != "" {
		s, saleErr := x.api.ledger.Sale(ctx, slug)
		if saleErr != nil {
			return saleErr
		}
		f.Sale, names[s.Number] = s.Number, s.Slug
	}
	limit := f.Limit
	f.Limit++
	found, err := x.api.ledger.ListLetters(ctx, f)
	if err != nil {
		return err
	}
	more := len(found) > limit
	found = found[:min(limit, len(found))]
	out := client.Page[client.DeadLetter]{Data: make([]client.DeadLetter, len(found))}
	for i := range found {
		if out.Data[i], err = x.letter(ctx, &found[i], names); err != nil {
			return err
		}
	}
	if more {
		out.Next = found[limit-1].ID.String()
	}
	x.reply(http.StatusOK, typeJSON, render(out))
	return nil
}

func letterFilter(q url.Values) (ledger.LetterFilter, error) {
	f := ledger.LetterFilter{State: ledger.LetterState(q.Get("state"))}
	switch f.State {
	case "", ledger.LetterOpen, ledger.LetterReplayed, ledger.LetterDropped:
	default:
		return f, sale.Invalid("state", "the state is unknown", "use open, replayed or dropped")
	}
	var err error
	if f.Limit, err = limitOf(q); err != nil {
		return f, err
	}
	if text := q.Get("after"); text != "" {
		if f.After, err = sale.ParseLetterID(text); err != nil {
			return f, sale.Invalid("after", "this is no place in the listing", "send next of the page before")
		}
	}
	return f, nil
}

// slugs are the names of sales that one answer needs.
type slugs map[sale.Number]string

// letter is a dead letter as an operator sees it. Its sale may be a deleted one.
func (x *exchange) letter(ctx context.Context, l *ledger.Letter, names slugs) (client.DeadLetter, error) {
	slug, known := names[l.Sale]
	if !known {
		s, err := x.api.ledger.SaleByNumber(ctx, l.Sale)
		if err != nil {
			return client.DeadLetter{}, err
		}
		slug, names[l.Sale] = s.Slug, s.Slug
	}
	w := client.DeadLetter{
		ID: l.ID.String(), Sale: slug, Place: l.Place, Cause: l.Cause, State: string(l.State), Raw: l.Raw,
		ParkedAt: l.ParkedAt, ClosedAt: instantPtr(l.ClosedAt),
	}
	if a := l.Attempt; a != nil && a.Slip != nil {
		w.Attempt = &client.LetterAttempt{Order: a.ID.String(), User: a.User, SKU: a.SKU, Quantity: a.Quantity, TakenAt: a.Slip.TakenAt}
	}
	return w, nil
}

func adminReplayLetter(ctx context.Context, x *exchange) error {
	id, err := x.letterID()
	if err != nil {
		return err
	}
	o, err := x.api.letters.Replay(ctx, id)
	if err != nil {
		return err
	}
	x.decided(ctx, "replayed", id)
	x.reply(http.StatusOK, typeJSON, render(x.order(&o)))
	return nil
}

func adminDropLetter(ctx context.Context, x *exchange) error {
	id, err := x.letterID()
	if err != nil {
		return err
	}
	l, err := x.api.letters.Drop(ctx, id)
	if err != nil {
		return err
	}
	x.decided(ctx, "dropped", id)
	w, err := x.letter(ctx, &l, make(slugs))
	if err != nil {
		return err
	}
	x.reply(http.StatusOK, typeJSON, render(w))
	return nil
}

// letterID returns the dead letter named in the path of a request without a body.
func (x *exchange) letterID() (ledger.LetterID, error) {
	if err := x.wantNothing(); err != nil {
		return ledger.LetterID{}, err
	}
	return sale.ParseLetterID(x.r.PathValue("letter"))
}

// decided leaves a line in the log for each letter that an operator decided about.
func (x *exchange) decided(ctx context.Context, what string, id ledger.LetterID) {
	x.api.log.LogAttrs(ctx, slog.LevelInfo, "an operator decided about a dead letter",
		slog.String("decision", what), slog.String("letter", id.String()), slog.String("key", x.who.KeyID), slog.String("request", x.id))
}

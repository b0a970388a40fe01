package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// listingFilter selects listings that are in force.
type listingFilter struct {
	subject ledger.Subject // zero: any
	network netip.Prefix   // of the subject, if it is one
	effect  ledger.Effect  // empty: any
	after   int64
	limit   int
}

const (
	readAtOnce = 1000 // the most that the ledger gives
	maxReads   = 10   // of the ledger for one page
)

// adminListBans shows listings in force. The ledger keeps those that are over among
// the others, so a page that meets many of them is short.
func adminListBans(ctx context.Context, x *exchange) error {
	q, err := x.query("subject", "effect", "after", "limit")
	if err != nil {
		return err
	}
	f := listingFilter{effect: ledger.Effect(q.Get("effect"))}
	switch f.effect {
	case "", ledger.EffectDeny, ledger.EffectAllow, ledger.EffectChallenge:
	default:
		return sale.Invalid("effect", "the effect is unknown", "use deny, allow or challenge")
	}
	if f.limit, err = limitOf(q); err != nil {
		return err
	}
	if text := q.Get("after"); text != "" {
		if f.after, err = strconv.ParseInt(text, 10, 64); err != nil || f.after < 0 {
			return sale.Invalid("after", "this is no place in the listing", "send next of the page before")
		}
	}
	if text := q.Get("subject"); text != "" {
		if err = f.about(text); err != nil {
			return err
		}
	}
	page, err := x.listings(ctx, &f)
	if err != nil {
		return err
	}
	x.reply(http.StatusOK, typeJSON, render(page))
	return nil
}

// about reads a subject: its kind, a colon and its value.
func (f *listingFilter) about(text string) error {
	kind, value, _ := strings.Cut(text, ":")
	subject, err := ledger.Subject{Kind: ledger.SubjectKind(kind), Value: value}.Canonical()
	if err != nil {
		e := *coded(err)
		e.Field, e.Hint = "subject", "write user:ID, device:ID, or network: with an address or a network"
		return &e
	}
	f.subject = subject
	if subject.Kind == ledger.SubjectNetwork {
		f.network, err = netip.ParsePrefix(subject.Value)
	}
	return err
}

// selects reports whether a listing is to be shown.
func (f *listingFilter) selects(l *ledger.Listing) bool {
	switch {
	case f.effect != "" && l.Effect != f.effect:
		return false
	case f.subject == ledger.Subject{} || l.Subject == f.subject:
		return true
	case !f.network.IsValid() || l.Subject.Kind != ledger.SubjectNetwork:
		return false
	}
	listed, err := netip.ParsePrefix(l.Subject.Value)
	return err == nil && listed.Bits() <= f.network.Bits() && listed.Contains(f.network.Addr())
}

// listings returns a page. One that the bound on reads has cut short has a next page.
func (x *exchange) listings(ctx context.Context, f *listingFilter) (client.Page[client.Listing], error) {
	out := client.Page[client.Listing]{Data: []client.Listing{}}
	now, err := x.api.ledger.Now(ctx)
	if err != nil {
		return out, err
	}
	for range maxReads {
		found, err := x.api.ledger.Listings(ctx, f.after, readAtOnce)
		if err != nil {
			return out, err
		}
		for i := range found {
			l := &found[i]
			f.after = l.Version
			if !l.InForce(now) || !f.selects(l) {
				continue
			}
			out.Data = append(out.Data, wireListing(l))
			if len(out.Data) == f.limit {
				out.Next = strconv.FormatInt(f.after, 10)
				return out, nil
			}
		}
		if len(found) < readAtOnce {
			return out, nil
		}
	}
	out.Next = strconv.FormatInt(f.after, 10)
	return out, nil
}

func wireListing(l *ledger.Listing) client.Listing {
	return client.Listing{
		Kind: string(l.Subject.Kind), Value: l.Subject.Value, Effect: string(l.Effect), Reason: l.Reason, Author: l.Author, Level: l.Level,
		CreatedAt: l.CreatedAt, ExpiresAt: instantPtr(l.ExpiresAt), Version: l.Version,
	}
}

func adminPutBan(ctx context.Context, x *exchange) error {
	var n client.NewListing
	if err := decode(x, &n); err != nil {
		return err
	}
	l := ledger.Listing{
		Subject: ledger.Subject{Kind: ledger.SubjectKind(n.Kind), Value: n.Value}, Effect: ledger.Effect(n.Effect), Reason: n.Reason, Author: x.who.KeyID,
	}
	if n.ExpiresAt != nil {
		l.ExpiresAt = *n.ExpiresAt
	}
	kept, err := x.api.ledger.PutListing(ctx, l)
	return x.listed(ctx, "entered", &kept, err)
}

func adminDropBan(ctx context.Context, x *exchange) error {
	var s client.Subject
	if err := decode(x, &s); err != nil {
		return err
	}
	gone, err := x.api.ledger.DropListing(ctx, ledger.Subject{Kind: ledger.SubjectKind(s.Kind), Value: s.Value}, x.who.KeyID)
	return x.listed(ctx, "dropped", &gone, err)
}

// listed leaves a line in the log for each listing that an operator changed, lets this
// instance learn of it at once, and answers.
func (x *exchange) listed(ctx context.Context, what string, l *ledger.Listing, err error) error {
	if err != nil {
		return err
	}
	x.nudgeGate()
	x.api.log.LogAttrs(ctx, slog.LevelInfo, "an operator changed the gate's lists",
		slog.String("act", what), slog.String("kind", string(l.Subject.Kind)), slog.String("value", l.Subject.Value), slog.String("effect", string(l.Effect)),
		slog.String("reason", l.Reason), slog.String("key", x.who.KeyID), slog.String("request", x.id))
	x.reply(http.StatusOK, typeJSON, render(wireListing(l)))
	return nil
}

// nudgeGate lets the gate of this instance look for what has changed.
func (x *exchange) nudgeGate() {
	if x.api.gate != nil {
		x.api.gate.Nudge()
	}
}

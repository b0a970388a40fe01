package ledgertest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// gateCases: lists that every instance can follow.
func gateCases() []testCase {
	return []testCase{
		{name: "Gate/listings are put, replaced and dropped", run: gateListed},
		{name: "Gate/an operator's mistakes", run: gateRefused},
		{name: "Gate/subjects are kept in one way", run: gateSubjects},
		{name: "Gate/what was changed is followed", run: gateFollowed},
		{name: "Gate/a ban doubles while it is remembered", run: gateDoubled},
		{name: "Gate/a ban stands back behind operators", run: gateBehind},
		{name: "Gate/a challenge gives way to a deny", run: gateEscalated},
		{name: "Gate/many offences at once", run: gateMany},
		{name: "Gate/one offence, seen by many", run: gateOnce},
		{name: "Gate/acts at once, each with its version", run: gateTogether},
		{name: "Gate/pruned", run: gatePruned},
		{name: "Gate/who watches is told", run: gateWatched},
		{name: "Gate/each guard refuses the whole write", run: gateGuards},
	}
}

// listings returns all listings, by turning pages of two.
func (w *world) listings(t *testing.T) (all []ledger.Listing) {
	t.Helper()
	after := int64(0)
	for {
		page, err := w.ledger.Listings(t.Context(), after, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), 2)
		if len(page) == 0 {
			return all
		}
		require.Greater(t, page[0].Version, after)
		all = append(all, page...)
		after = page[len(page)-1].Version
	}
}

func (w *world) gateVersion(t *testing.T) int64 {
	t.Helper()
	version, err := w.ledger.GateVersion(t.Context())
	require.NoError(t, err)
	return version
}

func gateListed(t *testing.T, w *world) {
	require.Zero(t, w.gateVersion(t))
	require.Empty(t, w.listings(t))
	made := w.now(t)
	in := deny(network("203.0.113.0/24"))
	in.ExpiresAt, in.Level, in.Version, in.CreatedAt = made.Add(time.Hour).In(time.FixedZone("", 7200)), 3, 77, made.Add(time.Hour)
	first := w.list(t, in)
	want := deny(in.Subject)
	want.CreatedAt, want.ExpiresAt, want.Version = made, made.Add(time.Hour), 1
	require.Equal(t, want, first)
	second := w.list(t, deny(user("ann")))
	require.Equal(t, []ledger.Listing{first, second}, w.listings(t))
	require.Equal(t, int64(2), w.gateVersion(t))

	w.Advance(time.Second)
	require.Equal(t, first, w.list(t, in), "what is in force already stays as it is")
	require.Equal(t, int64(2), w.gateVersion(t))
	in.Effect, in.Reason = ledger.EffectAllow, "a school"
	third := w.list(t, in)
	require.Equal(t, ledger.EffectAllow, third.Effect)
	require.Equal(t, w.now(t), third.CreatedAt)
	w.reopen(t)
	require.Equal(t, []ledger.Listing{second, third}, w.listings(t))

	gone, err := w.ledger.DropListing(t.Context(), second.Subject, "oleg")
	require.NoError(t, err)
	want = second
	want.Author, want.Dropped, want.ExpiresAt, want.Version = "oleg", true, w.now(t), 4
	require.Equal(t, want, gone)
	require.Equal(t, []ledger.Listing{third, gone}, w.listings(t))
	for _, s := range []ledger.Subject{second.Subject, user("nobody"), {Kind: ledger.SubjectDevice, Value: "ann"}} {
		_, err = w.ledger.DropListing(t.Context(), s, "oleg")
		requireCode(t, sale.CodeListingNotFound, err)
	}
	w.Advance(time.Hour)
	_, err = w.ledger.DropListing(t.Context(), third.Subject, "oleg")
	requireCode(t, sale.CodeListingNotFound, err)
	again := w.list(t, deny(user("ann")))
	require.Equal(t, []ledger.Listing{third, again}, w.listings(t), "one listing for a subject")
	require.True(t, again.InForce(w.now(t)))
}

func gateRefused(t *testing.T, w *world) {
	s := user("ann")
	put := func(edit func(*ledger.Listing)) error {
		l := deny(s)
		edit(&l)
		_, err := w.ledger.PutListing(t.Context(), l)
		return err
	}
	w.Advance(time.Minute)
	for name, edit := range map[string]func(*ledger.Listing){
		"no kind":     func(l *ledger.Listing) { l.Subject.Kind = "" },
		"no user":     func(l *ledger.Listing) { l.Subject.Value = "" },
		"a long user": func(l *ledger.Listing) { l.Subject.Value = strings.Repeat("a", 129) },
		"a long device": func(l *ledger.Listing) {
			l.Subject = ledger.Subject{Kind: ledger.SubjectDevice, Value: strings.Repeat("d", 65)}
		},
		"a device's space": func(l *ledger.Listing) { l.Subject = ledger.Subject{Kind: ledger.SubjectDevice, Value: "a b"} },
		"bits beyond":      func(l *ledger.Listing) { l.Subject = network("203.0.113.7/24") },
		"a name":           func(l *ledger.Listing) { l.Subject = network("example.net") },
		"no effect":        func(l *ledger.Listing) { l.Effect = "" },
		"an odd effect":    func(l *ledger.Listing) { l.Effect = "shout" },
		"a long reason":    func(l *ledger.Listing) { l.Reason = strings.Repeat("é", 201) },
		"lines":            func(l *ledger.Listing) { l.Reason = "a\nb" },
		"no author":        func(l *ledger.Listing) { l.Author = "" },
		"a long author":    func(l *ledger.Listing) { l.Author = strings.Repeat("o", 129) },
		"the gate":         func(l *ledger.Listing) { l.Author = ledger.GateAuthor },
		"ended":            func(l *ledger.Listing) { l.ExpiresAt = w.now(t) },
	} {
		err := put(edit)
		requireCode(t, sale.CodeInvalid, err)
		require.NotEmpty(t, hint(t, err), name)
	}
	_, err := w.ledger.DropListing(t.Context(), s, "")
	requireCode(t, sale.CodeInvalid, err)
	_, err = w.ledger.DropListing(t.Context(), network("1.2.3.4/8"), "olga")
	requireCode(t, sale.CodeInvalid, err)
	for _, edit := range []func(*ledger.Offence){
		func(o *ledger.Offence) { o.Subject.Value = "" },
		func(o *ledger.Offence) { o.Effect = ledger.EffectAllow },
		func(o *ledger.Offence) { o.Reason = "\x00" },
		func(o *ledger.Offence) { o.Base = time.Microsecond },
		func(o *ledger.Offence) { o.Max = o.Base - time.Millisecond },
		func(o *ledger.Offence) { o.Memory = -1 },
	} {
		o := offence(s)
		edit(&o)
		_, err = w.ledger.Ban(t.Context(), []ledger.Offence{offence(s), o})
		requireCode(t, sale.CodeInvalid, err)
	}
	_, err = w.ledger.Ban(t.Context(), make([]ledger.Offence, ledger.MaxOffences+1))
	requireCode(t, sale.CodeInvalid, err)
	require.Empty(t, w.ban(t))
	require.Zero(t, w.gateVersion(t), "a refusal writes nothing")

	require.NoError(t, put(func(l *ledger.Listing) {
		l.Reason, l.Author, l.ExpiresAt = strings.Repeat("é", 200), strings.Repeat("o", 128), w.now(t).Add(time.Millisecond)
	}), "at the very edge all is well")
}

func hint(t *testing.T, err error) string {
	t.Helper()
	var coded *sale.Error
	require.ErrorAs(t, err, &coded)
	return coded.Hint
}

// gateSubjects: user ids are compared byte for byte, networks by what they name.
func gateSubjects(t *testing.T, w *world) {
	ids := []string{"ann", "Ann", "ＡＮＮ", "a\u0301nn", "\u00e1nn", "ann ", " ann", "аnn"}
	for _, id := range ids {
		require.Equal(t, id, w.list(t, deny(user(id))).Subject.Value)
	}
	require.Len(t, w.listings(t), len(ids), "nothing is folded")
	for text, kept := range map[string]string{
		"203.0.113.7": "203.0.113.7/32", "::ffff:203.0.113.7": "203.0.113.7/32", "::ffff:203.0.113.7/128": "203.0.113.7/32",
		"::ffff:203.0.113.0/120": "203.0.113.0/24", "2001:DB8:0:0::/64": "2001:db8::/64", "2001:db8::1": "2001:db8::1/128",
		"0.0.0.0/0": "0.0.0.0/0", "::/0": "::/0",
	} {
		require.Equal(t, kept, w.list(t, deny(network(text))).Subject.Value, text)
		_, err := w.ledger.DropListing(t.Context(), network(text), "olga")
		require.NoError(t, err, text)
	}
	device := w.list(t, deny(ledger.Subject{Kind: ledger.SubjectDevice, Value: "ann"}))
	all := w.listings(t)
	require.Equal(t, device, all[len(all)-1])
}

// gateFollowed: who asks for what came after its version misses nothing and is told
// nothing twice, whatever happens between two pages.
func gateFollowed(t *testing.T, w *world) {
	known := make(map[ledger.Subject]ledger.Listing)
	at := int64(0)
	follow := func() (news int) {
		for {
			page, err := w.ledger.Listings(t.Context(), at, 3)
			require.NoError(t, err)
			for _, l := range page {
				require.Greater(t, l.Version, at)
				known[l.Subject], at = l, l.Version
			}
			news += len(page)
			if len(page) < 3 {
				require.Equal(t, w.gateVersion(t), at)
				return news
			}
		}
	}
	for i := range 7 {
		w.list(t, deny(user(strconv.Itoa(i))))
	}
	require.Equal(t, 7, follow())
	_, err := w.ledger.DropListing(t.Context(), user("0"), "olga")
	require.NoError(t, err)
	w.ban(t, offence(user("5")), offence(user("7")), offence(user("8")))
	require.Equal(t, 3, follow(), "the dropped one and two bans")
	require.True(t, known[user("0")].Dropped)
	require.Equal(t, ledger.GateAuthor, known[user("8")].Author)
	require.Len(t, known, 9)
	require.Zero(t, follow())
}

// bans lets a minute's ban end and the next one follow, after each pause.
func gateDoubled(t *testing.T, w *world) {
	o := offence(user("bot"))
	one := w.ban(t, o)[0]
	want := ledger.Listing{
		Subject: o.Subject, Effect: ledger.EffectDeny, Reason: o.Reason, Author: ledger.GateAuthor,
		CreatedAt: w.now(t), ExpiresAt: w.now(t).Add(time.Minute), Version: 1,
	}
	require.Equal(t, want, one)
	w.Advance(time.Minute - time.Millisecond)
	require.Equal(t, one, w.ban(t, o)[0], "while it runs a second offence changes nothing")
	w.Advance(time.Millisecond) // at the very end the next one begins
	for level, minutes := range []int{2, 4, 8, 10, 10} {
		l := w.ban(t, o)[0]
		require.Equal(t, level+1, l.Level)
		require.Equal(t, time.Duration(minutes)*time.Minute, l.ExpiresAt.Sub(l.CreatedAt))
		w.Advance(time.Duration(minutes)*time.Minute + time.Hour - time.Millisecond)
	}
	w.Advance(time.Millisecond)
	require.Zero(t, w.ban(t, o)[0].Level, "an hour after its end it is forgotten")

	w.Advance(time.Minute)
	require.Equal(t, 1, w.ban(t, o)[0].Level)
	_, err := w.ledger.DropListing(t.Context(), o.Subject, "olga")
	require.NoError(t, err)
	require.Zero(t, w.ban(t, o)[0].Level, "what an operator dropped is forgiven")
	w.reopen(t)
	require.Len(t, w.listings(t), 1)
}

func gateBehind(t *testing.T, w *world) {
	for _, effect := range []ledger.Effect{ledger.EffectAllow, ledger.EffectDeny, ledger.EffectChallenge} {
		l := deny(user(string(effect)))
		l.Effect, l.ExpiresAt = effect, w.now(t).Add(time.Hour)
		kept := w.list(t, l)
		version := w.gateVersion(t)
		require.Equal(t, []ledger.Listing{kept}, w.ban(t, offence(l.Subject)))
		require.Equal(t, version, w.gateVersion(t))
	}
	w.Advance(time.Hour)
	l := w.ban(t, offence(user("allow")))[0]
	require.Equal(t, ledger.GateAuthor, l.Author, "one that has ended is in nobody's way")
	require.Zero(t, l.Level)
	kept := w.list(t, deny(user("allow")))
	require.Equal(t, "olga", kept.Author, "an operator replaces what the gate did")
	require.Zero(t, kept.ExpiresAt)
}

func gateEscalated(t *testing.T, w *world) {
	mild := offence(user("bot"))
	mild.Effect = ledger.EffectChallenge
	w.ban(t, mild)
	w.Advance(time.Minute)
	soft := w.ban(t, mild)[0]
	require.Equal(t, ledger.EffectChallenge, soft.Effect)
	require.Equal(t, 1, soft.Level)
	w.Advance(time.Second)
	hard := w.ban(t, offence(user("bot")))[0]
	require.Equal(t, ledger.EffectDeny, hard.Effect)
	require.Equal(t, 1, hard.Level)
	require.Equal(t, w.now(t).Add(2*time.Minute), hard.ExpiresAt)
	require.Equal(t, hard, w.ban(t, mild)[0], "and never back while it runs")
}

func gateMany(t *testing.T, w *world) {
	allowed := deny(user("u-1"))
	allowed.Effect = ledger.EffectAllow
	allowed = w.list(t, allowed)
	offences := make([]ledger.Offence, ledger.MaxOffences)
	for i := range offences {
		offences[i] = offence(user("u-" + strconv.Itoa(i%900))) // some twice
	}
	offences[950].Effect = ledger.EffectChallenge
	out := w.ban(t, offences...)
	require.Equal(t, allowed, out[1])
	require.Equal(t, int64(900), w.gateVersion(t))
	for i := range out {
		require.Equal(t, offences[i].Subject, out[i].Subject)
		require.Equal(t, out[i%900], out[i])
	}
	stored, err := w.ledger.Listings(t.Context(), 0, 1000)
	require.NoError(t, err)
	require.Equal(t, slices.Concat(out[1:2], out[0:1], out[2:900]), stored)
	n, err := w.Store.Read().CountListings(t.Context(), w.now(t))
	require.NoError(t, err)
	require.Equal(t, 900, n)
	n, err = w.Store.Read().CountListings(t.Context(), w.now(t).Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, 1, n)

	mild := offence(user("both"))
	mild.Effect = ledger.EffectChallenge
	both := w.ban(t, mild, offence(user("both")))
	require.Equal(t, ledger.EffectDeny, both[0].Effect)
	require.Equal(t, both[0], both[1])
}

func gateOnce(t *testing.T, w *world) {
	for round := range 4 {
		before := w.gateVersion(t)
		out := make([][]ledger.Listing, 8)
		together(t, len(out), func(ctx context.Context, i int) (err error) {
			offences := []ledger.Offence{offence(user("a")), offence(user("b"))}
			if i%2 == 1 {
				slices.Reverse(offences)
			}
			out[i], err = w.ledger.Ban(ctx, offences)
			return err
		})
		require.Equal(t, before+2, w.gateVersion(t))
		for i := range out {
			if i%2 == 1 {
				slices.Reverse(out[i])
			}
			require.Equal(t, out[0], out[i])
			require.Equal(t, round, out[i][0].Level, "once a round")
		}
		w.Advance(11 * time.Minute)
	}
}

func gateTogether(t *testing.T, w *world) {
	const n = 16
	together(t, n, func(ctx context.Context, i int) error {
		s := user(strconv.Itoa(i % 4))
		if i%3 == 0 {
			_, err := w.ledger.Ban(ctx, []ledger.Offence{offence(user("bot-" + strconv.Itoa(i)))})
			return err
		}
		l := deny(s)
		l.Reason = "act " + strconv.Itoa(i)
		_, err := w.ledger.PutListing(ctx, l)
		return err
	})
	require.Equal(t, int64(n), w.gateVersion(t))
	all := w.listings(t)
	require.Len(t, all, 4+6)
	require.Equal(t, int64(n), all[len(all)-1].Version)
}

func gatePruned(t *testing.T, w *world) {
	w.list(t, deny(user("for ever")))
	w.ban(t, offence(user("first")))
	w.Advance(time.Second)
	w.ban(t, offence(user("second")), offence(user("third")))
	w.list(t, deny(user("dropped")))
	_, err := w.ledger.DropListing(t.Context(), user("dropped"), "olga")
	require.NoError(t, err)
	ended := w.now(t)
	w.Advance(time.Minute)
	version := w.gateVersion(t)
	prune := func(before time.Time, limit int) int {
		t.Helper()
		n, err := w.ledger.PruneListings(t.Context(), before, limit)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, prune(ended, 10), "it ended at that instant, not before it")
	require.Equal(t, 1, prune(ended.Add(time.Millisecond), 10))
	require.Equal(t, 1, prune(w.now(t).Add(time.Hour), 1))
	left := w.listings(t)
	require.Len(t, left, 3)
	require.Equal(t, []ledger.Subject{user("for ever"), user("second"), user("third")},
		[]ledger.Subject{left[0].Subject, left[1].Subject, left[2].Subject}, "longest ago first")
	w.ban(t, offence(user("fourth")))
	require.Zero(t, prune(w.now(t).Add(time.Hour), 0), "these end now, and what is in force is not pruned")
	w.Advance(time.Millisecond)
	require.Equal(t, 2, prune(w.now(t).Add(time.Hour), 0))
	require.Zero(t, prune(w.now(t), 0))
	require.Equal(t, version+1, w.gateVersion(t), "nobody must read anything because of it")
}

func gateWatched(t *testing.T, w *world) {
	var mu sync.Mutex
	var told []int64
	stop := w.ledger.WatchGate(func(version int64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, version)
	})
	w.ledger.Watch(func([]ledger.Entry) { t.Error("no journal was written") })
	w.ban(t, offence(user("a")), offence(user("b")))
	w.ban(t, offence(user("a")))
	_, err := w.ledger.PutGateSettings(t.Context(), 77, []byte("{}"), "olga")
	requireCode(t, sale.CodeVersionMismatch, err)
	w.settings(t, 0, "{}")
	_, err = w.ledger.RotateGateKey(t.Context(), 0)
	require.NoError(t, err)
	stop()
	w.list(t, deny(user("c")))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []int64{2, 3, 4}, told)
}

func gateGuards(t *testing.T, w *world) {
	w.ban(t, offence(user("a")), offence(user("b")))
	key, err := w.ledger.EnsureGateKey(t.Context())
	require.NoError(t, err)
	write := func(c ledger.GateChanges) error {
		return w.Store.Update(t.Context(), func(tx ledger.Tx) error {
			version, err := tx.LockGate(t.Context())
			if err != nil {
				return err
			}
			require.Equal(t, int64(3), version)
			if c.Settings == nil {
				c.Settings = &ledger.Settings{Version: c.Version, Text: []byte("x"), Author: "x", At: tx.Now()}
			}
			return tx.WriteGate(t.Context(), &c)
		})
	}
	at := func(version int64, s ledger.Subject) ledger.Listing {
		l := deny(s)
		l.CreatedAt, l.Version = w.now(t), version
		return l
	}
	forged := key
	forged.Secret[0]++
	before := w.dump(t)
	for name, c := range map[string]ledger.GateChanges{
		"from an old version":     {From: 2, Version: 4},
		"from a future version":   {From: 4, Version: 5},
		"no new version":          {From: 3, Version: 3},
		"backwards":               {From: 3, Version: 2},
		"a listing of before":     {From: 3, Version: 4, Listings: []ledger.Listing{at(3, user("c"))}},
		"a listing of later":      {From: 3, Version: 4, Listings: []ledger.Listing{at(5, user("c"))}},
		"one version for two":     {From: 3, Version: 4, Listings: []ledger.Listing{at(4, user("c")), at(4, user("d"))}},
		"one subject twice":       {From: 3, Version: 5, Listings: []ledger.Listing{at(4, user("c")), at(5, user("c"))}},
		"another secret":          {From: 3, Version: 4, Keys: []ledger.GateKey{forged}},
		"a key that is not there": {From: 3, Version: 4, Forgotten: []uint32{key.ID, 9}},
	} {
		require.ErrorIs(t, write(c), ledger.ErrConstraint, name)
		require.Equal(t, before, w.dump(t), name)
	}
	require.NoError(t, write(ledger.GateChanges{From: 3, Version: 5, Listings: []ledger.Listing{at(5, user("c"))}}))
}

package stock_test

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const number sale.Number = 7

func signer() *stock.Signer { return stock.NewSigner(sale.Key{1, 2, 3}, number) }

func promise() stock.Slip {
	at := time.Date(2026, 11, 27, 9, 0, 0, 123e6, time.UTC)
	return stock.Slip{
		ID: sale.DeriveOrderID(sale.Key{1}, number, "ann", "k"), User: "ann", Item: 2, Quantity: 70_000, Epoch: 5, Terms: 3,
		AskedAt: at, TakenAt: at.Add(20 * time.Millisecond),
	}
}

// entry is what a call leaves that took these slips.
func entry(slips ...stock.Slip) *stock.Entry {
	var raw []byte
	for i := range slips {
		raw = stock.AppendSlip(raw, &slips[i])
	}
	s := &slips[0]
	return &stock.Entry{ID: "1-1", Fields: map[string]string{
		stock.FieldVersion: stock.EntryVersion, stock.FieldEpoch: decimal(s.Epoch), stock.FieldTerms: decimal(s.Terms),
		stock.FieldAsked: decimal(s.AskedAt.UnixMilli()), stock.FieldTaken: decimal(s.TakenAt.UnixMilli()), stock.FieldSlips: string(raw),
	}}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func TestSignatureCoversThePromise(t *testing.T) {
	t.Parallel()
	s := promise()
	s.MAC = signer().Sign(&s)
	require.True(t, signer().Check(&s))
	for name, change := range map[string]func(*stock.Slip){
		"id":               func(s *stock.Slip) { s.ID[15] ^= 1 },
		"user":             func(s *stock.Slip) { s.User = "anm" },
		"a longer user":    func(s *stock.Slip) { s.User += "\x00" },
		"item":             func(s *stock.Slip) { s.Item++ },
		"quantity":         func(s *stock.Slip) { s.Quantity++ },
		"epoch":            func(s *stock.Slip) { s.Epoch++ },
		"terms":            func(s *stock.Slip) { s.Terms++ },
		"asked at":         func(s *stock.Slip) { s.AskedAt = s.AskedAt.Add(time.Millisecond) },
		"mac":              func(s *stock.Slip) { s.MAC[0] ^= 1 },
		"no mac":           func(s *stock.Slip) { s.MAC = stock.MAC{} },
		"taken much later": func(s *stock.Slip) { s.TakenAt = s.TakenAt.Add(stock.MaxDrift) },
		"taken before":     func(s *stock.Slip) { s.TakenAt = s.AskedAt.Add(-stock.MaxDrift - time.Millisecond) },
	} {
		other := s
		change(&other)
		require.False(t, signer().Check(&other), name)
	}
	later := s
	later.TakenAt = s.AskedAt.Add(stock.MaxDrift)
	require.True(t, signer().Check(&later), "the counter says when, within bounds")
	require.False(t, stock.NewSigner(sale.Key{9}, number).Check(&s), "another key")
	require.False(t, stock.NewSigner(sale.Key{1, 2, 3}, number+1).Check(&s), "another sale")
	foreign := s
	foreign.ID[0] ^= 1
	foreign.MAC = signer().Sign(&foreign)
	require.False(t, signer().Check(&foreign), "an id of another sale")
}

func TestEntriesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	first, second := promise(), promise()
	first.MAC = signer().Sign(&first)
	second.User, second.Item, second.Quantity, second.ID[4] = strings.Repeat("\x00票", 32), 99, 1<<24-1, 0
	second.MAC = signer().Sign(&second)
	e := entry(first, second)
	slips, err := stock.ReadSlips(number, e)
	require.NoError(t, err)
	require.Equal(t, []stock.Slip{first, second}, slips)
	require.Equal(t, int64(2), stock.CountSlips(e))
	require.Len(t, e.Fields[stock.FieldSlips], stock.SlipSize(first.User)+stock.SlipSize(second.User))
	for i := range slips {
		require.True(t, signer().Check(&slips[i]))
	}
}

func TestEntriesThatNobodyWrote(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f map[string]string){
		"another version": func(f map[string]string) { f[stock.FieldVersion] = "2" },
		"no version":      func(f map[string]string) { delete(f, stock.FieldVersion) },
		"no epoch":        func(f map[string]string) { delete(f, stock.FieldEpoch) },
		"terms in words":  func(f map[string]string) { f[stock.FieldTerms] = "three" },
		"a broken time":   func(f map[string]string) { f[stock.FieldTaken] = "1.5" },
		"too large":       func(f map[string]string) { f[stock.FieldAsked] = "9223372036854775808" },
		"no slips":        func(f map[string]string) { f[stock.FieldSlips] = "" },
	} {
		e := entry(promise())
		change(e.Fields)
		slips, err := stock.ReadSlips(number, e)
		require.ErrorIs(t, err, stock.ErrUnreadable, name)
		require.Empty(t, slips, name)
	}
	_, err := stock.ReadSlips(number, &stock.Entry{ID: "1-1"})
	require.ErrorIs(t, err, stock.ErrUnreadable, "an entry that was deleted")

	whole := entry(promise(), promise())
	raw := whole.Fields[stock.FieldSlips]
	for cut := 1; cut < len(raw); cut++ {
		if cut == len(raw)/2 {
			continue
		}
		whole.Fields[stock.FieldSlips] = raw[:cut]
		slips, err := stock.ReadSlips(number, whole)
		require.ErrorIs(t, err, stock.ErrUnreadable, "cut at %d", cut)
		require.Len(t, slips, cut*2/len(raw), "those before the cut are judged")
		require.Equal(t, int64(len(slips)), stock.CountSlips(whole))
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	s := promise()
	s.User = strings.Repeat("é", sale.MaxUserLen/2)
	s.MAC = signer().Sign(&s)
	text := signer().Receipt(&s)
	for _, c := range text {
		require.True(t, c > ' ' && c < 0x7f && c != '"' && c != ',', "fit for a header: %q", c)
	}
	got, err := signer().Open(text)
	require.NoError(t, err)
	require.Equal(t, s, got)
	require.True(t, signer().Check(&got), "a receipt is judged like a slip")
	n, err := stock.ReceiptSale(text)
	require.NoError(t, err)
	require.Equal(t, number, n)

	_, err = stock.NewSigner(sale.Key{9}, number).Open(text)
	require.ErrorIs(t, err, stock.ErrUnreadable, "another key")
	_, err = stock.NewSigner(sale.Key{1, 2, 3}, number+1).Open(text)
	require.ErrorIs(t, err, stock.ErrUnreadable, "another sale")
	for i := range text {
		for _, c := range []byte{'A', 'B', '_', '='} {
			if text[i] == c {
				continue
			}
			_, err := signer().Open(text[:i] + string(c) + text[i+1:])
			require.ErrorIs(t, err, stock.ErrUnreadable, "character %d", i)
		}
		_, err := signer().Open(text[:i])
		require.ErrorIs(t, err, stock.ErrUnreadable, "cut at %d", i)
	}
	for _, other := range []string{"", "r1.", text + "A", "r2" + text[2:], " " + text, text + "\n", strings.Repeat("A", 1<<16)} {
		_, err := signer().Open(other)
		require.ErrorIs(t, err, stock.ErrUnreadable)
		_, err = stock.ReceiptSale(strings.Repeat("A", 600))
		require.ErrorIs(t, err, stock.ErrUnreadable)
	}
}

// TestReceiptsAndSlipsHaveTheirOwnKeys makes sure that what is in the tray cannot
// be turned into a receipt, nor a receipt's MAC into a slip's.
func TestReceiptsAndSlipsHaveTheirOwnKeys(t *testing.T) {
	t.Parallel()
	s := promise()
	s.MAC = signer().Sign(&s)
	text := signer().Receipt(&s)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, "r1."))
	require.NoError(t, err)
	forged := append(append([]byte(nil), raw[:len(raw)-len(s.MAC)]...), s.MAC[:]...)
	_, err = signer().Open("r1." + base64.RawURLEncoding.EncodeToString(forged))
	require.ErrorIs(t, err, stock.ErrUnreadable)
	copy(s.MAC[:], raw[len(raw)-len(s.MAC):])
	require.False(t, signer().Check(&s))
}

func FuzzReadSlips(f *testing.F) {
	e := entry(promise(), promise())
	f.Add("1", "5", "3", "1", "2", e.Fields[stock.FieldSlips])
	f.Add("1", "", "3", "1", "2", "short")
	f.Add("1", "5", "3", "1", "2", strings.Repeat("\xff", 400))
	f.Fuzz(func(t *testing.T, version, epoch, terms, asked, taken, raw string) {
		e := stock.Entry{ID: "1-1", Fields: map[string]string{
			stock.FieldVersion: version, stock.FieldEpoch: epoch, stock.FieldTerms: terms,
			stock.FieldAsked: asked, stock.FieldTaken: taken, stock.FieldSlips: raw,
		}}
		slips, err := stock.ReadSlips(number, &e)
		if err != nil {
			require.ErrorIs(t, err, stock.ErrUnreadable)
		}
		if version == stock.EntryVersion && len(slips) > 0 {
			require.Equal(t, int64(len(slips)), stock.CountSlips(&e))
		}
		var again []byte
		for i := range slips {
			require.Equal(t, number, slips[i].ID.Sale())
			require.False(t, signer().Check(&slips[i]), "nobody guesses a MAC")
			again = stock.AppendSlip(again, &slips[i])
		}
		require.Equal(t, raw[:len(again)], string(again))
		if err == nil {
			require.Len(t, again, len(raw))
		}
	})
}

func FuzzOpen(f *testing.F) {
	s := promise()
	s.MAC = signer().Sign(&s)
	good := signer().Receipt(&s)
	f.Add(good)
	f.Add("r1.")
	f.Add("r1." + strings.Repeat("A", 200))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := signer().Open(text)
		if text == good {
			require.NoError(t, err)
			require.Equal(t, s, got)
			return
		}
		require.ErrorIs(t, err, stock.ErrUnreadable)
	})
}

func TestChecks(t *testing.T) {
	t.Parallel()
	l := stock.Lane{Sale: number}
	a := stock.Attempt{ID: promise().ID, User: "ann", Quantity: 1}
	require.NoError(t, (&stock.Call{Lane: l, Attempts: []stock.Attempt{a}}).Check())
	require.ErrorIs(t, (&stock.Call{Lane: l, Attempts: make([]stock.Attempt, stock.MaxBatch+1)}).Check(), stock.ErrInvalid)
	for quantity, want := range map[int64]int64{-1: 0, 0: 0, 1: 1, sale.MaxPerUserLimit: sale.MaxPerUserLimit, sale.MaxPerUserLimit + 1: 0, 1 << 62: 0} {
		a.Quantity = quantity
		require.Equal(t, want, a.Units())
	}
	act := stock.Act{Kind: stock.ActReturn, Seq: 5, ID: a.ID, User: "ann"}
	acts := func(seqs ...uint64) *stock.Acts {
		out := &stock.Acts{From: 4, To: 9}
		for _, seq := range seqs {
			act.Seq = seq
			out.Acts = append(out.Acts, act)
		}
		return out
	}
	require.NoError(t, acts().Check(l))
	require.NoError(t, acts(5, 5, 7, 9, 9).Check(l))
	for _, bad := range [][]uint64{{4}, {10}, {6, 5}, {0}} {
		require.ErrorIs(t, acts(bad...).Check(l), stock.ErrInvalid)
	}
	require.ErrorIs(t, (&stock.Acts{From: 2, To: 1}).Check(l), stock.ErrInvalid)
	require.NoError(t, stock.CheckActs(l, []stock.Act{{User: "ann", CoolUntil: time.Unix(1, 0)}}))
	require.ErrorIs(t, stock.CheckActs(l, []stock.Act{{User: "ann"}}), stock.ErrInvalid)
}

func BenchmarkSign(b *testing.B) {
	s, k := promise(), signer()
	b.ReportAllocs()
	for b.Loop() {
		s.MAC = k.Sign(&s)
	}
}

func BenchmarkReadSlips(b *testing.B) {
	slips := make([]stock.Slip, stock.MaxBatch)
	for i := range slips {
		slips[i] = promise()
	}
	e := entry(slips...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stock.ReadSlips(number, e); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(slips))/b.Elapsed().Seconds(), "slips/s")
}

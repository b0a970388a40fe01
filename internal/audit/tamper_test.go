package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// lines splits a file, each line with its end.
func lines(file []byte) [][]byte {
	parts := bytes.SplitAfter(file, []byte("\n"))
	return parts[:len(parts)-1]
}

// forge gives a changed file a trailer that fits it.
func forge(tb testing.TB, file []byte) []byte {
	tb.Helper()
	all := lines(file)
	body := bytes.Join(all[:len(all)-1], nil)
	trailer := trailerLine{SHA256: sha256.Sum256(body)}
	for _, raw := range all[:len(all)-1] {
		var l line
		require.NoError(tb, json.Unmarshal(raw, &l))
		switch l.stage() {
		case atTerms:
			trailer.Terms++
		case atRows:
			trailer.Rows++
		case atOrders:
			trailer.Orders++
		case atRefunds:
			trailer.Refunds++
		case atPayments:
			trailer.Payments++
		case atHolders:
			trailer.Holders++
		case atStart, atHeader, atEnd:
		}
	}
	return append(body, append(encode(tb, line{Trailer: &trailer}), '\n')...)
}

// find returns the index of the n-th line, from 0, that starts a kind.
func find(tb testing.TB, all [][]byte, kind string, n int) int {
	tb.Helper()
	for i := range all {
		if bytes.HasPrefix(all[i], []byte(`{"`+kind+`":`)) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	require.FailNow(tb, "no such line", kind)
	return 0
}

// replace changes text in the first line of a kind that holds it.
func replace(tb testing.TB, all [][]byte, kind, old, by string) {
	tb.Helper()
	for i := range all {
		if bytes.HasPrefix(all[i], []byte(`{"`+kind+`":`)) && bytes.Contains(all[i], []byte(old)) {
			all[i] = bytes.Replace(all[i], []byte(old), []byte(by), 1)
			return
		}
	}
	require.FailNow(tb, "nothing to replace", old)
}

type tampering struct {
	name string
	do   func(t *testing.T, all [][]byte) [][]byte
	// forged lists what is still seen when the trailer was made to fit; none
	// where the file cannot be read any more.
	forged []rule
}

func tamperings() []tampering {
	edit := func(kind, old, by string) func(*testing.T, [][]byte) [][]byte {
		return func(t *testing.T, all [][]byte) [][]byte {
			t.Helper()
			replace(t, all, kind, old, by)
			return all
		}
	}
	return []tampering{
		{"changed body", edit("row", `\"quantity\":2`, `\"quantity\":1`), []rule{rowChain}},
		{"changed hash", edit("row", `"hash":"`, `"hash":"0`), nil},
		{"dropped row", func(t *testing.T, all [][]byte) [][]byte {
			t.Helper()
			i := find(t, all, "row", 4)
			return slices.Delete(all, i, i+1)
		}, []rule{rowNumbers, rowChain}},
		{"dropped last row", func(t *testing.T, all [][]byte) [][]byte {
			t.Helper()
			i := find(t, all, "order", 0) - 1
			return slices.Delete(all, i, i+1)
		}, []rule{rowHead}},
		{"swapped rows", func(t *testing.T, all [][]byte) [][]byte {
			t.Helper()
			i := find(t, all, "row", 4)
			all[i], all[i+1] = all[i+1], all[i]
			return all
		}, []rule{rowNumbers, rowChain}},
		{"inserted row", func(t *testing.T, all [][]byte) [][]byte {
			t.Helper()
			i := find(t, all, "row", 4)
			return slices.Insert(all, i, bytes.Clone(all[i]))
		}, []rule{rowNumbers, rowChain}},
		{"changed order", edit("order", `"user":"bob"`, `"user":"mallory"`), []rule{orderTrace}},
		{"changed state", edit("order", `"state":"reserved"`, `"state":"paid"`), []rule{phantom, chargeFound}},
		{"dropped order", func(t *testing.T, all [][]byte) [][]byte {
			t.Helper()
			i := find(t, all, "order", 0)
			return slices.Delete(all, i, i+1)
		}, []rule{phantom}},
		{"changed payment", edit("payment", `"amount":2000`, `"amount":1`), []rule{chargeAmount}},
		{"changed refund", edit("refund", `"state":"required"`, `"state":"done"`), []rule{refundTrace}},
		{"changed stock", edit("header", `"stock":`, `"stock":9`), []rule{stockRows}},
		{"changed price", edit("terms", `"prices":[1000,`, `"prices":[1,`), []rule{orderTerms, termsTrace}},
		{"changed counter", edit("holder", `"live":2`, `"live":1`), []rule{holderCounter}},
		{"sections swapped", func(t *testing.T, all [][]byte) [][]byte {
			t.Helper()
			i, j := find(t, all, "terms", 0), find(t, all, "row", 0)
			all[i], all[j] = all[j], all[i]
			return all
		}, nil},
		{"another kind of line", edit("terms", `"terms"`, `"note"`), nil},
	}
}

func TestTamperedExportIsCaught(t *testing.T) {
	t.Parallel()
	for _, c := range tamperings() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			changed := bytes.Join(c.do(t, lines(story(t).export())), nil)

			report, err := Verify(t.Context(), bytes.NewReader(changed), VerifyOptions{})
			if c.forged == nil {
				var broken *FileError
				require.ErrorAs(t, err, &broken)
				require.Positive(t, broken.Line)
				return
			}
			require.NoError(t, err)
			require.Contains(t, brokenRules(&report.Sales[0]), fileDigest.String())

			report, err = Verify(t.Context(), bytes.NewReader(forge(t, changed)), VerifyOptions{})
			require.NoError(t, err)
			found := brokenRules(&report.Sales[0])
			for _, want := range c.forged {
				require.Contains(t, found, want.String())
			}
			require.NotContains(t, found, fileDigest.String())
			require.NotContains(t, found, fileCounts.String())
		})
	}
}

func TestChangedTrailerIsCaught(t *testing.T) {
	t.Parallel()
	whole := story(t).export()
	for name, change := range map[string]func(string) string{
		"digest":     func(s string) string { return strings.Replace(s, `"sha256":"`, `"sha256":"00`, 1) },
		"count":      func(s string) string { return strings.Replace(s, `"orders":13`, `"orders":14`, 1) },
		"upper case": func(s string) string { return strings.Replace(s, `"orders"`, `"Orders"`, 1) },
		"spaces":     func(s string) string { return strings.Replace(s, `"orders":`, `"orders": `, 1) },
		"twice":      func(s string) string { return s + s },
		"gone":       func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := lines(whole)
			last := string(all[len(all)-1])
			changed := change(last)
			require.NotEqual(t, last, changed)
			file := append(bytes.Join(all[:len(all)-1], nil), changed...)
			report, err := Verify(t.Context(), bytes.NewReader(file), VerifyOptions{})
			require.True(t, err != nil || report.Broken())
		})
	}
}

func TestFileCutShortIsCaught(t *testing.T) {
	t.Parallel()
	whole := story(t).export()
	for n := range whole {
		if n%7 != 0 && whole[max(0, n-1)] != '\n' {
			continue // every line's end, and every seventh byte
		}
		_, err := Verify(t.Context(), bytes.NewReader(whole[:n]), VerifyOptions{})
		var broken *FileError
		require.ErrorAsf(t, err, &broken, "after %d bytes", n)
		if n == 0 || whole[n-1] == '\n' {
			require.ErrorIs(t, err, ErrCutShort)
		}
	}
}

// No single changed byte goes unnoticed, wherever it is.
func TestAnyChangedByteIsCaught(t *testing.T) {
	t.Parallel()
	whole := story(t).export()
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		changed := bytes.Clone(whole)
		i, bit := random.IntN(len(changed)), byte(1)<<random.IntN(8)
		changed[i] ^= bit
		report, err := Verify(t.Context(), bytes.NewReader(changed), VerifyOptions{})
		require.Truef(t, err != nil || report.Broken(), "byte %d, bit %08b", i, bit)
	}
}

// A file that its author rewrote from the first row on, consistently, is caught
// only by a head that was published before.
func TestPublishedHeadCatchesARewrittenFile(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.buy(t, "zoe", priced, 1)
	early := s.capture(t)
	s.tell(t)
	w := s.capture(t)
	published := fmt.Sprintf("%x", early.facts.head)

	report, err := Verify(t.Context(), bytes.NewReader(w.export()), VerifyOptions{Head: published})
	require.NoError(t, err)
	require.False(t, report.Broken(), "rows were only added since")
	require.Equal(t, early.facts.seq, report.Sales[0].Figures.Anchor)

	w.editRows(w.of("zoe").ID, 0, func(b *ledger.OrderBody) { b.User = "mallory" })
	w.of("zoe").User = "mallory"
	for i := range w.holders {
		if w.holders[i].User == "zoe" {
			w.holders[i].User = "mallory"
		}
	}
	report, err = Verify(t.Context(), bytes.NewReader(w.export()), VerifyOptions{})
	require.NoError(t, err)
	require.False(t, report.Broken(), "the forgery is consistent")

	report, err = Verify(t.Context(), bytes.NewReader(w.export()), VerifyOptions{Head: published})
	require.NoError(t, err)
	require.Equal(t, []string{fileHead.String()}, brokenRules(&report.Sales[0]))

	_, err = Verify(t.Context(), bytes.NewReader(nil), VerifyOptions{Head: "ABC"})
	require.ErrorContains(t, err, "expected head")
}

func TestMalformedLinesNameTheirNumber(t *testing.T) {
	t.Parallel()
	all := lines(story(t).export())
	header := string(all[0])
	for name, c := range map[string]struct {
		file string
		line int
	}{
		"empty":           {"", 1},
		"no JSON":         {"hello\n", 1},
		"no object":       {"[]\n", 1},
		"no member":       {header + "{}\n", 2},
		"two members":     {header + `{"holder":{},"trailer":{}}` + "\n", 2},
		"two objects":     {strings.TrimSuffix(header, "\n") + " {}\n", 1},
		"no header":       {string(all[1]), 1},
		"two headers":     {header + header, 2},
		"unknown member":  {header + `{"row":{"sequence":1}}` + "\n", 2},
		"unknown version": {strings.Replace(header, `"version":2`, `"version":3`, 1), 1},
		"bad order id":    {header + `{"order":{"id":"ord_x"}}` + "\n", 2},
		"bad refund id":   {header + `{"refund":{"id":"x"}}` + "\n", 2},
		"endless line":    {header + strings.Repeat(" ", maxLine+1) + "\n", 2},
		"no line end":     {strings.TrimSuffix(header, "\n"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Verify(t.Context(), strings.NewReader(c.file), VerifyOptions{})
			var broken *FileError
			require.ErrorAs(t, err, &broken)
			require.Equal(t, c.line, broken.Line, err)
			require.Equal(t, sale.CodeUnavailable, sale.CodeOf(err), "a flaw of the file is no business answer")
			require.Equal(t, name == "endless line", errors.Is(err, errLongLine), err)
		})
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestUnreadableFileIsNoFileError(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk on fire")
	_, err := Verify(t.Context(), failingReader{cause}, VerifyOptions{})
	require.ErrorIs(t, err, cause)
	var broken *FileError
	require.NotErrorAs(t, err, &broken)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Verify(ctx, bytes.NewReader(story(t).export()), VerifyOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestExportKeepsTheSecret(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.tell(t)
	var out bytes.Buffer
	done, err := Export(t.Context(), s.store, s.sale.Number, &out)
	require.NoError(t, err)
	require.Equal(t, int64(bytes.Count(out.Bytes(), []byte("\n"))), done.Lines)
	require.NotContains(t, out.String(), `"key"`)
	for _, form := range []string{hex.EncodeToString(s.sale.Key[:]), string(encode(t, s.sale.Key[:])), string(s.sale.Key[:])} {
		require.NotContains(t, out.String(), strings.Trim(form, `"`))
	}

	report, err := Verify(t.Context(), &out, VerifyOptions{Head: done.Head})
	require.NoError(t, err)
	require.False(t, report.Broken())
	require.Equal(t, done.Seq, report.Sales[0].Figures.Anchor)

	_, err = Export(t.Context(), s.store, 99, &out)
	require.Equal(t, sale.CodeSaleNotFound, sale.CodeOf(err))
}

func FuzzVerify(f *testing.F) {
	// Small seeds: a whole little sale, and of a long one each kind of line alone.
	s := newShop(f)
	o := s.buy(f, "alice", priced, 1)
	s.pay(f, "ch-alice", &o, sale.PaymentSucceeded)
	f.Add(s.capture(f).export())
	all := lines(story(f).export())
	for _, kind := range []ledger.Kind{ledger.KindLaneAdopt, ledger.KindLaneReturn, ledger.OrderKind(sale.Rejected), ledger.SaleKind(sale.ActionReroute)} {
		i := slices.IndexFunc(all, func(raw []byte) bool { return bytes.Contains(raw, []byte(`"kind":"`+kind+`"`)) })
		f.Add(slices.Concat(all[0], all[i]))
	}
	for _, kind := range []string{"terms", "row", "order", "refund", "payment", "holder", "trailer"} {
		f.Add(slices.Concat(all[0], all[find(f, all, kind, 0)]))
	}
	for _, c := range []string{"", "{}\n", "{\"trailer\":{}}\n", "{\"header\":null}\n"} {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		report, err := Verify(t.Context(), bytes.NewReader(file), VerifyOptions{})
		if err != nil {
			var broken *FileError
			require.ErrorAs(t, err, &broken)
			require.LessOrEqual(t, broken.Line, bytes.Count(file, []byte("\n"))+1)
			return
		}
		require.Len(t, report.Sales, 1)
		require.NotEmpty(t, text(t, &report))
	})
}

// A line may be longer than the reader's buffer: a sale of many items.
func TestLongLinesAreRead(t *testing.T) {
	t.Parallel()
	w := story(t)
	title := strings.Repeat("x", 1<<17)
	w.editSale(func(b *ledger.SaleBody) { b.Title = title })
	w.facts.body.Title = title
	report, err := Verify(t.Context(), bytes.NewReader(w.export()), VerifyOptions{})
	require.NoError(t, err)
	require.False(t, report.Broken(), "%s", text(t, &report))
}

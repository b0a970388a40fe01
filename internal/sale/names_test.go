package sale

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat
	for _, c := range []struct {
		name  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{
			name: "user", check: CheckUser,
			good: []string{"a", " ", "ann ", "Ann", "ｊｏ", "e\u0301", "jo\u200b", "\ufffd", "用户", long("a", 128), long("é", 64), "a/b?c#d", "\u00a0", "\u2028"},
			bad:  []string{"", long("a", 129), long("é", 64) + "a", "a\x00", "a\nb", "\t", "\x7f", "\u0085", "\xff", "a\xc3", "\xed\xa0\x80"},
		},
		{
			name: "key", check: CheckIdempotencyKey,
			good: []string{"!", "~", "a", `"abc"`, long("k", 128), "6f1ed002-ab5e-4b0e-9a8c-0a7f7a6f3a11"},
			bad:  []string{"", long("k", 129), " ", "a b", "a\x7f", "é", "\x00", "a\n"},
		},
		{
			name: "payment", check: CheckPaymentID,
			good: []string{"!", "pi_3N", long("p", 128)},
			bad:  []string{"", long("p", 129), "a b", "é", "\x1f"},
		},
		{
			name: "slug", check: CheckSlug,
			good: []string{"a", "0", "a-b", "a--b", "summer-drop-1", long("a", 64)},
			bad:  []string{"", long("a", 65), "-a", "a-", "-", "A", "a_b", "a b", "ä", "a/b", "a.b", "a{b}"},
		},
		{
			name: "SKU", check: CheckSKU,
			good: []string{"a", "A", "Sku-1", "a{b}c", "a/b", "%20", long("s", 64)},
			bad:  []string{"", long("s", 65), " a", "a ", "a b", "é", "a\n", "\x7f"},
		},
		{
			name: "currency", check: CheckCurrency,
			good: []string{"EUR", "CNY", "ZZZ"},
			bad:  []string{"", "EU", "EURO", "eur", "EuR", "E1R", "ÄÖ", "E R"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range c.good {
				require.NoError(t, c.check(s), "%q", s)
			}
			for _, s := range c.bad {
				err := c.check(s)
				require.Equal(t, CodeInvalid, CodeOf(err), "%q", s)
				var coded *Error
				require.ErrorAs(t, err, &coded)
				require.NotEmpty(t, coded.Field)
				require.NotEmpty(t, coded.Hint)
				require.False(t, coded.Retry, "the same input stays wrong")
			}
		})
	}
}

// FuzzCheckUser: what is let in is short, prints, and survives JSON unchanged.
func FuzzCheckUser(f *testing.F) {
	for _, user := range []string{"ann", "", "\xff", "\u2028", "a\x00b", strings.Repeat("é", 65), "\U0001F9A5"} {
		f.Add(user)
	}
	f.Fuzz(func(t *testing.T, user string) {
		if CheckUser(user) != nil {
			return
		}
		require.LessOrEqual(t, len(user), MaxUserLen)
		require.NotEmpty(t, user)
		require.True(t, utf8.ValidString(user))
		require.NotContains(t, user, "\x00")
		require.NotContains(t, user, "\n")
		raw, err := json.Marshal(user)
		require.NoError(t, err)
		var back string
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, user, back)
	})
}

// FuzzCheckSlug: what is let in can stand in a path, a key and a file name.
func FuzzCheckSlug(f *testing.F) {
	f.Add("summer-drop-1")
	f.Add("-a")
	f.Fuzz(func(t *testing.T, slug string) {
		if CheckSlug(slug) != nil {
			return
		}
		require.Regexp(t, `^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`, slug)
	})
}

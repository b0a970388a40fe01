package buyers

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// values draws any JSON value of some depth.
func values(depth int) *rapid.Generator[any] {
	text := rapid.StringN(0, 8, -1)
	flat := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.Int32(), func(n int32) any { return float64(n) }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	if depth == 0 {
		return flat
	}
	return rapid.OneOf(
		flat,
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(text, values(depth-1), 0, 3), func(v map[string]any) any { return v }),
	)
}

// TestMembersReadsWhatADecoderReads: every object, written tight or wide, has the
// members that the decoder finds.
func TestMembersReadsWhatADecoderReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		want := rapid.MapOfN(rapid.StringMatching(`[a-z_]{1,6}`), values(2), 0, 5).Draw(r, "object")
		raw, err := json.Marshal(want)
		require.NoError(r, err)
		if rapid.Bool().Draw(r, "wide") {
			raw, err = json.MarshalIndent(want, " ", "\t")
			require.NoError(r, err)
		}
		got := make(map[string]any)
		require.True(r, members(raw, func(name, value []byte) bool {
			var v any
			require.NoError(r, json.Unmarshal(value, &v))
			got[string(name)] = v
			return true
		}), "%s", raw)
		assert.Equal(r, want, got)
		// What is cut off is no object.
		cut := rapid.IntRange(0, len(raw)-1).Draw(r, "cut")
		assert.False(r, members(raw[:cut], func(_, _ []byte) bool { return true }), "%s", raw[:cut])
	})
}

func TestMembersSurvivesAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]byte(`{}[]",:\0ab `)), 0, 40).Draw(r, "text")
		members(text, func(name, value []byte) bool {
			assert.LessOrEqual(r, len(name)+len(value), len(text))
			return true
		})
	})
}

func TestWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "998": 998, "-5": -5, "9007199254740991": 9007199254740991} {
		n, ok := whole([]byte(text))
		assert.True(t, ok, text)
		assert.Equal(t, want, n)
	}
	for _, text := range []string{"", "-", "1.5", "1e3", "null", `"1"`, "1234567890123456789"} {
		_, ok := whole([]byte(text))
		assert.False(t, ok, text)
	}
}

func TestWordsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWords()
	assert.Equal(t, "EUR", w.word([]byte("EUR")))
	for i := range 2 * mostWords {
		w.status(100 + i)
	}
	assert.Len(t, w.learned, mostWords)
	assert.Equal(t, otherWord, w.word([]byte("one_more")))
	assert.Equal(t, "sold_out", w.word([]byte("sold_out")))
	assert.Equal(t, "EUR", w.word([]byte("EUR")))
	assert.Equal(t, BadAnswer, w.status(7))
	assert.Equal(t, otherWord, w.word(nil))
}

func BenchmarkRefusal(b *testing.B) {
	body := []byte(`{"type":"about:blank","title":"Conflict","status":409,"code":"sold_out","detail":"every unit is held or sold","hint":"a unit may come back"}`)
	w := newWords()
	b.ReportAllocs()
	for b.Loop() {
		members(body, func(name, value []byte) bool {
			if string(name) != "code" {
				return true
			}
			_ = w.word(plain(value))
			return false
		})
	}
}

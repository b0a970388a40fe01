package buyers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
)

func TestMint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	assert.Equal(t, 5, w.cast.Size())
	assert.Equal(t, "crowd-000003", w.cast.User(2))
	assert.Len(t, strings.Split(w.cast.Token(2), "."), 3)

	for _, n := range []int{0, -1, buyers.MostBuyers + 1} {
		_, err := buyers.Mint(n, "x", buyers.Minting{})
		require.ErrorContains(t, err, "a crowd has 1 to 1000000 buyers")
	}
	_, err := buyers.Mint(1, "x", buyers.Minting{Secret: []byte("short"), Now: time.Now(), Life: time.Hour})
	assert.ErrorContains(t, err, "at least 32 bytes")
}

func TestReadCast(t *testing.T) {
	t.Parallel()
	minted := newWorld(t, nil).cast
	c, err := buyers.ReadCast(strings.NewReader("\n"+minted.Token(0)+"\r\n\n  ben\topaque  \nnameless\n"), 0)
	require.NoError(t, err)
	require.Equal(t, 3, c.Size())
	assert.Equal(t, []string{"crowd-000001", "ben", ""}, []string{c.User(0), c.User(1), c.User(2)})
	assert.Equal(t, []string{minted.Token(0), "opaque", "nameless"}, []string{c.Token(0), c.Token(1), c.Token(2)})

	c, err = buyers.ReadCast(strings.NewReader("a\nb\nthis line is not read"), 2)
	require.NoError(t, err)
	assert.Equal(t, 2, c.Size())

	for want, file := range map[string]string{
		"there is no token":                              "\n \n",
		"line 2: a token is visible ASCII":               "a\nb c\n",
		"line 1: a token is visible ASCII":               "ann\t\n",
		"line 2: it is longer than 8192 bytes":           "a\n" + strings.Repeat("x", 9000),
		"line 3: the user of line 1 again":               "ann\ta\nben\tb\nann\tc\n",
		"line 1: a token is visible ASCII without space": "tök",
	} {
		_, err := buyers.ReadCast(strings.NewReader(file), 0)
		assert.ErrorContains(t, err, want)
	}
}

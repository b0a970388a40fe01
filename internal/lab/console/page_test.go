package console_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/console"
)

func TestColumnsStandUnderEachOther(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := console.New(&b)
	s.Line("%d units", 100)
	s.Table("lr", [][]string{{"", "p50"}, {"größe", "7"}, {"x", "1,000"}})
	s.Part(func(w io.Writer) error {
		_, err := io.WriteString(w, "PASS\n")
		return err
	})
	require.NoError(t, s.Err())
	assert.Equal(t, "100 units\n           p50\n  größe      7\n  x      1,000\n\nPASS\n", b.String())
}

// full takes some bytes and then nothing more.
type full int

var errFull = errors.New("the disk is full")

func (f *full) Write(p []byte) (int, error) {
	if *f -= full(len(p)); *f < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestFirstErrorStays(t *testing.T) {
	t.Parallel()
	room := full(3)
	s := console.New(&room)
	s.Line("ab")
	s.Line("cd")
	s.Table("l", [][]string{{"x"}})
	s.Part(func(io.Writer) error { return errors.New("never asked") })
	assert.ErrorIs(t, s.Err(), errFull)
}

package testenv

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Views returns the ways in which people look at a report: at a desk and on a phone,
// by day and by night, and on paper.
func Views() []View {
	return []View{
		{},
		{Dark: true},
		{Width: 390, Height: 844, Phone: true},
		{Width: 390, Height: 844, Phone: true, Dark: true},
		{Width: 703, Height: 1032, Paper: true}, // A4 within its margins
	}
}

// Report opens a page that is a file, and checks what holds for every report: it fits
// into its window, the browser has nothing to complain of, and it asks for nothing
// but itself.
func (b *Browser) Report(tb testing.TB, path string, v View) *Tab {
	tb.Helper()
	address := "file://" + path
	tab := b.Open(address, v)
	assert.Empty(tb, tab.Misfits())
	assert.Empty(tb, tab.Complaints())
	assert.Equal(tb, []string{address}, tab.Requests(), "a report needs nothing but itself")
	return tab
}

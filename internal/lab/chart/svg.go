package chart

import (
	"encoding/xml"
	"html/template"
	"strconv"
	"strings"
)

// canvas gathers the text of a figure.
type canvas struct{ strings.Builder }

// raw writes markup as it is.
func (c *canvas) raw(parts ...string) {
	for _, p := range parts {
		_, _ = c.WriteString(p) // a Builder takes everything
	}
}

// text writes words, which may be anybody's.
func (c *canvas) text(words string) {
	// It replaces what XML cannot hold.
	_ = xml.EscapeText(&c.Builder, []byte(words))
}

// wrap writes words inside an element.
func (c *canvas) wrap(open, words, end string) {
	c.raw(open)
	c.text(words)
	c.raw(end)
}

func (c *canvas) html() template.HTML {
	return template.HTML(c.String()) //nolint:gosec // whatever is not ours went through text
}

// grain is how many units the stretched drawing is wide and high.
const grain = 1000

// coord writes a share of the drawing's width or height.
func coord(share float64) string {
	return strconv.FormatFloat(share*grain, 'f', -1, 32)
}

// spot writes a share as a part of a hundred, for what is not stretched.
func spot(share float64) string {
	return trim(strconv.FormatFloat(share*100, 'f', 3, 64)) + "%"
}

package chart

import "html/template"

// Bar draws a bar for the cell of a table, as long as a value's part of the greatest.
// It says nothing that the figure beside it does not, so who does not see it misses
// nothing.
func Bar(value, greatest float64, ink Ink) template.HTML {
	share := 0.0
	if value > 0 && greatest > 0 && finite(value) {
		share = min(value/greatest, 1)
	}
	var c canvas
	c.raw(`<svg class="bar `, ink.class(0), `" width="100%" height="8" aria-hidden="true"><rect class="rail" width="100%" height="8" rx="1"/><rect class="full" width="`,
		spot(share), `" height="8" rx="1"/></svg>`)
	return c.html()
}

package chart

import "strconv"

func (c *canvas) caption(title, note string) {
	c.wrap(`<figcaption><b>`, clip(title), `</b>`)
	if note != "" {
		c.wrap(` <span>`, note, `</span>`)
	}
	c.raw(`</figcaption>`)
}

// nothing says that there is nothing to draw.
func (c *canvas) nothing() {
	c.raw(`<p class="nothing">no data</p></figure>`)
}

// open draws the frame of a chart, its grid and its letters, up to where the
// stretched drawing begins.
func (c *canvas) open(title, description string, x, y *scale) {
	c.raw(`<div class="plot"><svg role="img" width="100%" height="100%">`)
	c.wrap(`<title>`, clip(title), `</title>`)
	c.wrap(`<desc>`, description, `</desc>`)
	c.raw(`<g class="grid" aria-hidden="true">`)
	for _, t := range y.steps {
		at := spot(1 - y.share(t.at))
		c.raw(`<line x2="100%" y1="`, at, `" y2="`, at, `"/>`)
		c.label(t, `class="up" x="-8" y="`+at+`" dy=".32em" text-anchor="end"`)
	}
	for _, t := range x.steps {
		at := spot(x.share(t.at))
		c.raw(`<line x1="`, at, `" x2="`, at, `" y2="100%"/>`)
		class := "across"
		if t.minor {
			class += " minor"
		}
		c.label(t, `class="`+class+`" x="`+at+`" y="100%" dy="1.6em" text-anchor="middle"`)
	}
	size := strconv.Itoa(grain)
	c.raw(`<line class="axis" x2="100%" y1="100%" y2="100%"/></g>`,
		`<svg width="100%" height="100%" viewBox="0 0 `, size, ` `, size, `" preserveAspectRatio="none">`)
}

func (c *canvas) label(t tick, place string) { c.wrap(`<text `+place+`>`, t.label, `</text>`) }

func (c *canvas) shut() { c.raw(`</svg></svg></div></figure>`) }

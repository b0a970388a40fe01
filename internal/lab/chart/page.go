package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

//go:embed cursor.js
var cursorText string

// WritePage writes a whole page: a report's template, filled with its data, inside a
// page that brings everything it needs. Templates have num for whole numbers, fixed
// for others that are told as whole ones, and ms for milliseconds.
func WritePage(w io.Writer, title, body string, data any) error {
	t, err := template.New("page").Funcs(words()).Parse(pageText)
	if err != nil {
		return err
	}
	if _, err = t.New("body").Parse(body); err != nil {
		return err
	}
	return t.Execute(w, map[string]any{
		"Title":  title,
		"Style":  template.CSS(styleText), //nolint:gosec // ours
		"Cursor": template.JS(cursorText), //nolint:gosec // ours
		"Data":   data,
	})
}

// words are what templates write figures with.
func words() template.FuncMap {
	return template.FuncMap{
		"num":   whole,
		"fixed": fixed,
		"ms":    func(v float64) string { return strings.ReplaceAll(Millis.Text(v), " ", "\u00a0") }, // on one line
	}
}

// whole writes a whole number of any type.
func whole(n any) (string, error) {
	switch n := n.(type) {
	case int:
		return Grouped(int64(n)), nil
	case int64:
		return Grouped(n), nil
	case uint64:
		return Grouped(int64(min(n, math.MaxInt64))), nil
	}
	return "", fmt.Errorf("chart: num of a %T", n)
}

// fixed writes a whole number where there is room for it.
func fixed(v float64) string {
	if !finite(v) || v > beyond {
		return "–"
	}
	return Grouped(int64(v + 0.5))
}

// Package chart draws the charts of the reports as SVG, and the page around them: one
// file that needs no style sheet, no font and no script from elsewhere.
//
// # How a chart keeps its letters
//
// A chart is as wide as its column, on a desk or on a phone, and its letters have one
// size everywhere. So it is two drawings in one: curves and areas in a drawing that is
// stretched to fit, whose strokes keep their width, and letters and grid lines over it
// in parts of a hundred. The room for the letters is the figure's padding; what stands
// there overflows the drawing on purpose.
//
// # What colours mean
//
// An [Ink] is a meaning, not a colour: accepted is the same green in every chart and
// table of every report. The style sheet knows the colours, for light and dark.
//
// # What is drawn of odd data
//
// Names come from servers and are escaped and cut. A value that is not a number, or
// infinite, is a gap in its curve; one beyond 1e15 is drawn there. A chart without any
// value says "no data" in place of axes that would show something.
package chart

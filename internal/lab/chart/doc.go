// Package chart draws the charts of the reports as SVG, and the page around them: one
// file that needs no script, no style sheet and no font from elsewhere.
package chart

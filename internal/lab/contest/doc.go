// Package contest is the `doorbuster lab` command: it sends one and the same crowd at
// every strategy of package strategy and at Doorbuster itself, recounts each time
// what was sold, and puts the accidents and the cure side by side.
package contest

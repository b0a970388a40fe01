// Package testenv runs the real product in tests: it builds the binary once, and
// starts servers on free loopback ports in folders of their own, stopped by pid
// when the test ends. A part that is missing fails the test and says how to
// install it; nothing is skipped.
package testenv

// Package limittest examines implementations of limit.Limiter. Its cases are named
// after the accidents of other limiters that they try again.
package limittest

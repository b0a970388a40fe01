// Package locktest examines implementations of lock.Store: what a Locker over
// them promises, case by case, each in a fresh store and in parallel. Names of
// cases that hold a number (N29) repeat an accident of another library; the
// numbers are those of docs/locks-compared.md.
package locktest

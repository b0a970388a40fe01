// Package memlock keeps locks in the memory of one process: for programs that run
// alone, and for tests of programs that will not. It has every kind of lock and
// keeps every promise of package lock, within the process.
//
// Several Lockers may share one Store, as processes share a server.
package memlock

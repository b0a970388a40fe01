// Package probe reads what a server, its Redis, its PostgreSQL and its nginx tell of
// themselves while a crowd runs, once in a slot, as series in time.
package probe

// Package servers starts real servers from the binaries of this machine: PostgreSQL,
// redis-server and doorbuster itself, each on free loopback ports and in a folder
// of its own. They are stopped by pid and end with this process, however that ends.
// A program that is missing is an error that says how to install it.
//
// It serves commands, such as the lab, and through package testenv the tests.
// PostgreSQL and Redis are made to be thrown away: they do not care for power cuts.
package servers

// Package cli is the command line: one file for each noun, each a struct whose
// tags are its flags and whose Run does the work.
//
// Commands that change or show sales and orders speak to a server over its HTTP
// API, with the public client; those that must work without a server (migrate,
// key, audit) open the ledger. Results go to standard output, as aligned tables
// or, with --json, as one JSON document; everything else goes to standard error.
//
// Run methods return errors and print none: Main prints each error once, with
// its hint, and turns it into one of the exit codes, which are part of the
// interface; see the ExitX constants.
package cli

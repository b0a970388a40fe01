package sqldb

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// primaryCode masks the reason in SQLite's extended result codes.
const primaryCode = 0xff

// The SQLSTATE codes and classes of PostgreSQL that mean something here.
const (
	classData       = "22" // a value that no column can hold, such as a text with a NUL
	classConstraint = "23"
	classLimit      = "54" // such as a key too long for its index
	stateRaised     = "P0001"
	stateTwice      = "21000" // one statement names a row twice
	stateSerialize  = "40001"
	stateDeadlock   = "40P01"
	stateLocked     = "55P03"
	stateReadOnly   = "25006"
)

// IsConstraint reports whether the database refused a row for what it holds: the
// same write will be refused again. A lock, a full disk or a broken connection
// is no such refusal.
func IsConstraint(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return true
	}
	switch state := State(err); state {
	case "":
		return false
	case stateRaised, stateTwice:
		return true
	default:
		return state[:2] == classData || state[:2] == classConstraint || state[:2] == classLimit
	}
}

// IsLimit reports whether PostgreSQL has met a limit of its own.
func IsLimit(err error) bool { return strings.HasPrefix(State(err), classLimit) }

// IsConflict reports whether PostgreSQL undid a transaction because of another
// one. Nothing was done; the same transaction may succeed.
func IsConflict(err error) bool {
	state := State(err)
	return state == stateSerialize || state == stateDeadlock
}

// IsReadOnly reports whether PostgreSQL refused to write since it is a copy of
// another server, as a former primary is after a fail-over.
func IsReadOnly(err error) bool { return State(err) == stateReadOnly }

// State returns the SQLSTATE of PostgreSQL's answer, five characters, or nothing
// for an error that is not its answer.
func State(err error) string {
	if coded, ok := errors.AsType[*pgconn.PgError](err); ok && len(coded.Code) == 5 {
		return coded.Code
	}
	return ""
}

// IsBusy reports whether the database was locked by somebody else for longer
// than the busy timeout. Nothing was done; the same call may succeed.
func IsBusy(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return true
	}
	return State(err) == stateLocked
}

// sqliteCode returns the primary result code, 0 for any other error.
func sqliteCode(err error) int {
	if coded, ok := errors.AsType[*sqlite.Error](err); ok {
		return coded.Code() & primaryCode
	}
	return 0
}

package sqldb

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// primaryCode masks the reason in SQLite's extended result codes.
const primaryCode = 0xff

// IsConstraint reports whether the database refused a row for what it holds: the
// same write will be refused again. A lock, a full disk or a broken connection
// is no such refusal.
func IsConstraint(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return true
	}
	return false
}

// IsBusy reports whether the database was locked by somebody else for longer
// than the busy timeout. Nothing was done; the same call may succeed.
func IsBusy(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return true
	}
	return false
}

// sqliteCode returns the primary result code, 0 for any other error.
func sqliteCode(err error) int {
	if coded, ok := errors.AsType[*sqlite.Error](err); ok {
		return coded.Code() & primaryCode
	}
	return 0
}

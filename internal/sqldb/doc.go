// Package sqldb is what every SQL store of the house shares: the schema and its
// versions, statements kept in .sql files, and what a driver's error means.
//
// # Schema
//
// A Schema is a list of migrations, embedded in the binary and applied in order,
// each in a transaction of its own. A database is used only at exactly the
// version that the binary was built for: an older one asks for Up, a newer one
// is refused, since nobody can know what a future schema means.
//
// # Statements
//
// One statement lives in one .sql file, under a header that says what it does
// and names its parameters in order. Statements reads such a folder and refuses
// a file whose header and text disagree.
//
// # Errors
//
// IsConstraint tells a deterministic refusal of a row from trouble that may pass;
// IsConflict and IsBusy name trouble of which it is known that nothing was done.
package sqldb

package pgledger

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/ledger"
)

// A commit that meets a limit of the server's own, as a queue of NOTIFY that is full, is
// no refusal of what it holds: the same commit may succeed later.
func TestLimitOfTheServerIsNoRefusal(t *testing.T) {
	t.Parallel()
	full := &pgconn.PgError{Code: "54000", Message: "too many notifications in the NOTIFY queue"}
	require.NotErrorIs(t, failed("commit", full), ledger.ErrConstraint)
	require.ErrorIs(t, failed("orders_insert", full), ledger.ErrConstraint, "as a key that no index can hold")
	require.ErrorIs(t, failed("commit", &pgconn.PgError{Code: "23505"}), ledger.ErrConstraint)
}

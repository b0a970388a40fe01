package pgledger

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/testenv"
)

// TestPlans asks how statements would be run that were prepared while every table
// was empty, as those of a process that starts before the crowd comes: each of them
// must walk the index that serves it when the tables are full, and never read or
// sort all of a crowd's rows.
func TestPlans(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{URL: testenv.Postgres(t).URL, Migrate: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	conn, err := s.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan")
	require.NoError(t, err)
	for name, steps := range map[string][]string{
		"orders_by_id":        {"using orders_pkey on orders f", "Index Cond: (id = u.id)"},
		"orders_lock":         {"using orders_pkey on orders f", "Index Cond: (id = u.id)", "LockRows"},
		"orders_move":         {"using orders_pkey on orders f", "Index Cond: (id = u.id)", "TID Cond: (ctid = found.ctid)"},
		"holders_by_user":     {"using holders_pkey on holders f", "Index Cond: ((sale = $1) AND (user_id = u.user_id))"},
		"orders_each":         {"using orders_pkey", "Index Cond: ((id > $1) AND (id <= $2))"},
		"holders_each":        {"using holders_pkey", "Index Cond: ((sale = $1) AND (user_id > $2))"},
		"orders_due":          {"using orders_due", "Index Cond: ((expires_at >= $1) AND (expires_at <= $2))"},
		"orders_due_free":     {"using orders_due", "Index Cond: ((expires_at >= $1) AND (expires_at <= $2))", "LockRows"},
		"orders_reserved":     {"using orders_due"},
		"orders_any_reserved": {"using orders_due", "Index Cond: ((id > $1) AND (id <= $2))"},
		"orders_of_sale":      {"Backward using orders_sale", "Incremental Sort"},
		"orders_of_user":      {"Backward using orders_user", "Incremental Sort"},
		"orders_of_all":       {"Backward using orders_sale", "Incremental Sort"},
		"buyers":              {"using orders_sale"},
		"journal_rows":        {"using journal_pkey", "Index Cond: ((sale = $1) AND (seq > $2))"},
		"lane_rows":           {"using journal_lane", "Index Cond: ((sale = $1) AND (seq > $2))"},
		"payment_by_id":       {"using payments_pkey"},
		"payments_each":       {"using payments_order"},
		"refunds_of_state":    {"using refunds_state"},
		"refunds_each":        {"refunds_order"},
		"letter_of_order":     {"using dead_letters_order"},
		"letters_of_sale":     {"using dead_letters_sale"},
		"letters_of_state":    {"using dead_letters_state"},
		"sale_by_slug":        {"using sales_slug"},
		"listings_after":      {"using gate_listings_pkey", "Index Cond: (version > $1)"},
		"listings_count":      {"Index Only Scan using gate_listings_end", "Index Cond: ((expires_at > $1) AND (dropped = false))"},
		"listings_prune":      {"Index Cond: (version = ANY ($0))", "using gate_listings_end", "Index Cond: ((expires_at > 0) AND (expires_at < $1))"},
		"listings_of_subjects": {
			"using gate_listings_subject", "Index Cond: ((kind = u.kind) AND (value = u.value))",
		},
	} {
		prepared, err := conn.Conn().Prepare(t.Context(), "plan_"+name, s.statements[name])
		require.NoError(t, err, name)
		nothing := strings.TrimSuffix(strings.Repeat("NULL, ", len(prepared.ParamOIDs)), ", ")
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE plan_"+name+" ("+nothing+")", pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, name)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err, name)
		plan := strings.Join(lines, "\n")
		for _, step := range steps {
			require.Contains(t, plan, step, "%s:\n%s", name, plan)
		}
		for _, table := range []string{"orders", "holders", "journal", "payments", "gate_listings"} {
			require.NotContains(t, plan, "Seq Scan on "+table, "%s:\n%s", name, plan)
		}
	}
}

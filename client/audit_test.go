package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/client"
)

func TestAuditReportBroken(t *testing.T) {
	t.Parallel()
	var r client.AuditReport
	require.False(t, r.Broken())
	r.Sales = []client.AuditSale{{Rules: []client.AuditRule{{Rule: "P1", Checked: 5}}}, {Rules: []client.AuditRule{{Rule: "P3"}}}}
	require.False(t, r.Broken())
	r.Sales[1].Rules[0].Broken = 1
	require.True(t, r.Broken())
}

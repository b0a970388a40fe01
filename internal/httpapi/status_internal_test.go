package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/sale"
)

func TestEveryRejectionHasACode(t *testing.T) {
	t.Parallel()
	for reason, code := range map[sale.RejectReason]sale.Code{
		sale.RejectedSoldOut: sale.CodeSoldOut, sale.RejectedStock: sale.CodeSoldOut, sale.RejectedLimit: sale.CodeLimitReached,
		sale.RejectedCoolDown: sale.CodeCoolDown, sale.RejectedLate: codeRejected, sale.RejectedSale: codeRejected,
		sale.RejectedSlip: codeRejected, "of a later version": codeRejected,
	} {
		e := rejection(reason)
		require.Equal(t, code, e.Code, reason)
		require.Equal(t, http.StatusConflict, statusOf(e.Code), reason)
		require.NotEmpty(t, e.Message, reason)
		require.NotEmpty(t, e.Hint, reason)
	}
}

func TestWhatIsJudgedMeanwhileIsListedOnce(t *testing.T) {
	t.Parallel()
	order := func(n byte, s sale.OrderState) sale.Order { return sale.Order{ID: sale.OrderID{n}, State: s} }
	queued, judged := split([]sale.Order{order(3, sale.Queued), order(2, sale.Queued), order(2, sale.Reserved), order(1, sale.Paid)})
	require.Equal(t, []sale.Order{order(3, sale.Queued)}, queued)
	require.Equal(t, []sale.Order{order(2, sale.Reserved), order(1, sale.Paid)}, judged)
	queued, judged = split([]sale.Order{order(3, sale.Queued)})
	require.Len(t, queued, 1)
	require.Empty(t, judged)
	queued, judged = split(nil)
	require.Empty(t, queued)
	require.Empty(t, judged)
}

func FuzzReceiptHeader(f *testing.F) {
	f.Add("r1.AAAA", "")
	f.Add("", "r1.AAAA")
	f.Add("a b", "")
	f.Fuzz(func(t *testing.T, first, second string) {
		h := http.Header{headerReceipt: {first}}
		if second != "" {
			h.Add(headerReceipt, second)
		}
		got, err := receiptOf(h)
		if err != nil {
			require.Equal(t, http.StatusBadRequest, statusOf(sale.CodeOf(err)))
			require.Empty(t, got)
			return
		}
		require.Empty(t, second)
		require.Equal(t, first, got)
		require.LessOrEqual(t, len(got), maxReceipt)
	})
}

func FuzzPreferredWait(f *testing.F) {
	f.Add("wait=10")
	f.Add(`respond-async, Wait = "3"; x=y`)
	f.Add("wait=99999999999999999999")
	f.Fuzz(func(t *testing.T, prefer string) {
		wait, said := preferredWait(http.Header{"Prefer": {prefer}})
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.LessOrEqual(t, wait, maxWait)
		require.Equal(t, wait, wait.Truncate(time.Second))
		if !said {
			require.Zero(t, wait)
		}
	})
}

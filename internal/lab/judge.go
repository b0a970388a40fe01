package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/audit"
	"github.com/doorbuster/doorbuster/internal/servers"
)

// judge compares the books with the server's account, lets the audit recount,
// and writes it all down.
func (o *DemoOptions) judge(ctx context.Context, st *stage, c *crowd) (DemoReport, error) {
	account, err := readAccount(ctx, st.admin, c.sale)
	if err != nil {
		return DemoReport{}, fmt.Errorf("read the server's account: %w", err)
	}
	found, err := st.server.audit(ctx, o.audited(c.sale)...)
	if err != nil {
		return DemoReport{}, err
	}
	b := c.books
	r := DemoReport{
		Sale: c.sale, Buyers: o.Buyers, Stock: int64(o.Stock), Latecomers: len(c.late), Seed: o.Seed,
		Connections: st.door.size, Address: st.server.URL, Dir: st.server.Dir, Kept: o.Keep,
		Promises: b.reckon(account), Audit: found,
		Attempts: tallies(b.answers), Accepted: firstSold(account.orders, b.answers, int64(o.Stock), c.opens), Refused: refusedAtDoor(b.answers),
	}
	r.Units = unitsOf(&account, b.notices)
	return r, nil
}

func readAccount(ctx context.Context, admin *client.Client, sale string) (account, error) {
	var a account
	var err error
	if a.sale, err = admin.AdminSale(ctx, sale); err != nil {
		return a, err
	}
	orders := client.All(func(after string) (client.Page[client.Order], error) {
		return admin.AdminOrders(ctx, client.OrderQuery{Sale: sale, After: after})
	})
	for o, err := range orders {
		if err != nil {
			return a, err
		}
		a.orders = append(a.orders, o)
	}
	refunds := client.All(func(after string) (client.Page[client.Refund], error) {
		return admin.Refunds(ctx, client.RefundQuery{After: after})
	})
	ours := make(map[string]bool, len(a.orders))
	for i := range a.orders {
		ours[a.orders[i].ID] = true
	}
	for r, err := range refunds {
		if err != nil {
			return a, err
		}
		if ours[r.Order] {
			a.refunds = append(a.refunds, r)
		}
	}
	return a, nil
}

// Units is what became of the stock and of what came back.
type Units struct {
	Paid     int64 `json:"paid"`
	Oversold int64 `json:"oversold"`  // held at one time beyond the stock
	LeftOver int64 `json:"left_over"` // neither paid nor held
	// Cancelled and Expired are units that came back and were sold again.
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
	// SlowestMS is the longest time between the end of a hold and the instant
	// at which its unit was free again.
	SlowestMS int64 `json:"slowest_return_ms"`
	// LatePaid and LateRefunded are charges that came when the hold was over:
	// those that got a free unit, and those that go back to the buyer.
	LatePaid     int64 `json:"late_paid"`
	LateRefunded int64 `json:"late_refunded"`
}

func unitsOf(a *account, notices []notice) Units {
	var u Units
	for i := range a.orders {
		o := &a.orders[i]
		switch o.State {
		case statePaid:
			u.Paid += o.Quantity
		case stateCancelled:
			u.Cancelled += o.Quantity
		case stateExpired:
			u.Expired += o.Quantity
			if o.EndedAt != nil && o.ExpiresAt != nil {
				u.SlowestMS = max(u.SlowestMS, o.EndedAt.Sub(*o.ExpiresAt).Milliseconds())
			}
		}
	}
	for i := range a.sale.Items {
		u.Oversold += max(0, peak(a.orders)-a.sale.Items[i].Stock)
		u.LeftOver += a.sale.Items[i].Left
	}
	for i := range notices {
		switch n := &notices[i]; {
		case n.late && n.outcome == outcomeRefundRequired:
			u.LateRefunded++
		case n.late:
			u.LatePaid++
		}
	}
	return u
}

const (
	auditTime = 20 * time.Second
	// exitBroken is the exit code of `doorbuster audit` for a broken promise.
	exitBroken = 3
)

// audited returns the arguments that name what is audited: of a shared ledger only
// the demo's own sale.
func (o *DemoOptions) audited(sale string) []string {
	if o.LedgerURL == "" {
		return nil
	}
	return []string{"--ledger-url", o.LedgerURL, "--sale", sale}
}

// audit runs the audit command as anybody could, on the ledger in the folder
// while the server serves it.
func (s *server) audit(ctx context.Context, more ...string) (audit.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	args := append([]string{"audit", "--data-dir", s.Dir, "--json"}, more...)
	cmd := exec.CommandContext(ctx, s.Binary, args...) //nolint:gosec // our own binary
	cmd.Env, cmd.Dir = servers.PlainEnvironment(), s.Dir
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	err := cmd.Run()
	if err != nil && !slices.Contains([]int{0, exitBroken}, cmd.ProcessState.ExitCode()) {
		return audit.Report{}, fmt.Errorf("audit: %w: %s", err, bytes.TrimSpace(trouble.Bytes()))
	}
	var r audit.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("audit: its report cannot be read: %w", err)
	}
	if len(r.Sales) == 0 {
		return r, errors.New("audit: it found no sale")
	}
	return r, nil
}

package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/chart"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
)

// judge says whether the run passes. What is broken is broken, whatever else was not
// compared; without that the error says why nothing, or not all, is proved.
func (b *bench) judge(k *reckoning, missing error) error {
	r := b.report
	gaps := b.gaps(k, missing)
	switch {
	case r.broken():
		r.Warnings = append(r.Warnings, gaps...)
		return nil
	case len(gaps) > 0:
		return errors.New(strings.Join(gaps, "; "))
	}
	if !k.account.steady {
		r.warn("orders moved while they were read, %d times: how many the sale counts as sold was left to the audit", mostReadings)
	}
	r.Pass = true
	return nil
}

// gaps are the reasons for which what was compared is no proof.
func (b *bench) gaps(k *reckoning, missing error) []string {
	r := b.report
	var all []string
	gap := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	gap(!r.decided(), "no buyer got an answer that says yes or no; the table of answers says what they got")
	gap(b.queued > 0, "%s orders were still queued %v after the crowd: what they become was not seen", chart.Grouped(b.queued), judgeTime)
	gap(k.refused > 0 && !k.account.steady, "orders moved while they were read, %d times: whether units were free for those who were told sold_out cannot be said", mostReadings)
	gap(missing != nil && r.Checks[len(r.Checks)-1].Checked == 0, "no click could be repeated in the end: %v", missing)
	gap(!slices.ContainsFunc(r.Audit.Sales, func(s client.AuditSale) bool { return s.ID == r.Sale }), "the audit told nothing of the sale %s", r.Sale)
	return all
}

// decided reports whether anybody was told that he has something, or that all is
// gone: other refusals say nothing of the stock.
func (r *Report) decided() bool {
	return r.of(classNames()[traffic.Accepted]).Answers+r.count("buy", string(client.ErrSoldOut))+r.count("buy", string(client.ErrInsufficient)) > 0
}

// soldOutLater counts the orders that were queued first and then rejected since all
// was sold.
func soldOutLater(told []buyers.Order) int64 {
	var n int64
	for i := range told {
		if told[i].Reason == "sold_out" {
			n++
		}
	}
	return n
}

// broken reports whether a promise is broken.
func (r *Report) broken() bool {
	for i := range r.Checks {
		if r.Checks[i].Broken > 0 {
			return true
		}
	}
	return r.Sold.Oversold > 0 || r.Audit.Broken()
}

// verdict is the report in one word.
func (r *Report) verdict() string {
	switch {
	case r.Unproved != "":
		return "UNPROVED"
	case r.Pass:
		return "PASS"
	}
	return "FAIL"
}

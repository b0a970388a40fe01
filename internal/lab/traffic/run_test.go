package traffic

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

type plain struct{}

func (plain) Request(dst []byte, s *Step) []byte {
	return fmt.Appendf(dst, "POST %s/buy HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n{}", s.Target.Prefix, s.Target.Host)
}

func (plain) Heard(s *Step, a *wire.Answer, err error) Outcome {
	switch {
	case err != nil:
		return Outcome{Class: Failed, Verdict: "no_answer"}
	case s.Kind == Look:
		return Outcome{Class: Looked, Verdict: "seen"}
	case s.Kind == Pay:
		return Outcome{Class: Settled, Verdict: "paid"}
	case a.Status == http.StatusCreated:
		return Outcome{Class: Accepted, Verdict: "taken", Next: &Step{Kind: Pay, Buyer: s.Buyer}, After: 50 * time.Millisecond}
	}
	return Outcome{Class: Refused, Verdict: "sold_out"}
}

func TestSmoke(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server-Timing", "gate;dur=0.051, engine;dur=1.5")
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	target, err := wire.ParseTarget(server.URL + "/x")
	require.NoError(t, err)
	p := Profile{Buyers: 1000, Spread: 300 * time.Millisecond, Refreshes: 1000, Before: 200 * time.Millisecond, Bots: .1, BotClicks: 3, DoubleClick: .1}
	plan, err := p.Plan(7)
	require.NoError(t, err)
	r, err := Run(t.Context(), []*wire.Target{target}, plan, plain{}, Options{Connections: 50})
	require.NoError(t, err)
	assert.Equal(t, int64(1290), r.Verdicts[Buy]["taken"])
	assert.Equal(t, int64(1290), r.Verdicts[Pay]["paid"])
	assert.Equal(t, int64(200), r.Verdicts[Look]["seen"])
	t.Log(r.Late.ValueAtQuantile(50), r.Late.ValueAtQuantile(99), r.Waited[Accepted].ValueAtQuantile(50), r.Served[Accepted].ValueAtQuantile(50), r.Stages["engine"].Mean(), r.First, len(r.Slots))
	for _, s := range r.Slots {
		t.Log(s.Offered, s.Sent, s.Answers, s.Verdicts)
	}
}

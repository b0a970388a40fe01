package captcha_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/gate/captcha"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// requireAgain fails unless nothing was decided and the buyer is told to come again.
func requireAgain(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, sale.CodeBusy, sale.CodeOf(err), "%v", err)
	for _, state := range []error{gate.ErrCaptchaDown, gate.ErrCaptchaSetup, gate.ErrCaptchaRefused, gate.ErrCaptchaUsed} {
		require.NotErrorIs(t, err, state)
	}
}

// outlast asks until the service counts as out, and returns that error.
func outlast(t *testing.T, v gate.Verifier, s gate.Solution) error {
	t.Helper()
	for n := range 7 {
		requireAgain(t, v.Verify(t.Context(), s, noon.Add(time.Duration(n)*time.Second)))
	}
	err := v.Verify(t.Context(), s, noon.Add(7*time.Second))
	require.ErrorIs(t, err, gate.ErrCaptchaDown)
	return err
}

// scripted answers what is in the response: a status, or an error code.
type scripted struct {
	*httptest.Server
	asked atomic.Int64
	out   atomic.Bool
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		_ = r.ParseForm()
		switch response := r.PostForm.Get("response"); {
		case response == "poison" || s.out.Load():
			w.WriteHeader(http.StatusInternalServerError)
		case response == "good":
			_, _ = w.Write([]byte(`{"success":true,"hostname":"` + host + `","challenge_ts":"` + noon.Format(time.RFC3339) + `"}`))
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"success": false, "error-codes": []string{response}})
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// What a client can send at will is his trouble and opens nothing: no work in the place
// of the captcha, however often he tries.
func TestClientsDoNotChooseTheirProof(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	told := 0
	v, err := captcha.NewHCaptcha(captcha.Site{Endpoint: s.URL, Secret: secret, Hostnames: []string{host}, Trouble: func(error) { told++ }})
	require.NoError(t, err)
	t.Cleanup(v.Close)
	at := noon
	ask := func(response string) error {
		at = at.Add(time.Second)
		return v.Verify(t.Context(), gate.Solution{Response: response}, at)
	}
	for range 5 {
		for _, code := range []string{"not-using-dummy-secret", "not-using-dummy-passcode", "sitekey-secret-mismatch", "invalid-sitekey"} {
			require.ErrorIs(t, ask(code), gate.ErrCaptchaRefused)
		}
	}
	require.Equal(t, 20, told, "an operator hears of it, for it may be his mistake")
	for range 10 { // his own questions fail, those of others do not
		for range 6 {
			requireAgain(t, ask("poison"))
		}
		require.NoError(t, ask("good"))
	}
}

// While the service is out nothing is asked; then whoever comes asks, and an answer
// ends it.
func TestOutageEnds(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	v, _ := verifiers(t, s.URL, 0)
	s.out.Store(true)
	require.Error(t, outlast(t, v, gate.Solution{Response: "good"}))
	asked := s.asked.Load()
	at := func(seconds int) error {
		return v.Verify(t.Context(), gate.Solution{Response: "good"}, noon.Add(time.Duration(7+seconds)*time.Second))
	}
	require.ErrorIs(t, at(0), gate.ErrCaptchaDown)
	require.ErrorIs(t, at(4), gate.ErrCaptchaDown)
	require.Equal(t, asked, s.asked.Load())
	require.ErrorIs(t, at(5), gate.ErrCaptchaDown)
	require.Equal(t, asked+1, s.asked.Load())
	s.out.Store(false)
	require.ErrorIs(t, at(6), gate.ErrCaptchaDown)
	require.NoError(t, at(10))
	require.NoError(t, at(11))
	s.out.Store(true)
	requireAgain(t, at(12))
}

// A burst that fails at once is no outage yet.
func TestBurstIsNoOutage(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	v, _ := verifiers(t, s.URL, 0)
	s.out.Store(true)
	for range 20 {
		requireAgain(t, verify(t, v, gate.Solution{Response: "good"}))
	}
	require.ErrorIs(t, v.Verify(t.Context(), gate.Solution{Response: "good"}, noon.Add(2*time.Second)), gate.ErrCaptchaDown)
}

// Questions have places of their own. Who finds none is told at once, and the rest of
// the server is not held up by a slow service.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const places = 64
	came, release := make(chan url.Values, places), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		came <- r.PostForm
		<-release
		_, _ = w.Write([]byte(`{"success":false,"error-codes":["invalid-input-response"]}`))
	}))
	t.Cleanup(server.Close)
	v, _ := verifiers(t, server.URL, time.Minute)
	var all sync.WaitGroup
	for range places {
		all.Go(func() {
			if err := v.Verify(context.WithoutCancel(t.Context()), gate.Solution{Response: "r"}, noon); err == nil {
				panic("accepted")
			}
		})
	}
	for range places {
		<-came
	}
	for range 20 {
		requireAgain(t, verify(t, v, gate.Solution{Response: "one too many"}))
	}
	close(release)
	all.Wait()
	require.ErrorIs(t, verify(t, v, gate.Solution{Response: "r"}), gate.ErrCaptchaRefused)
}

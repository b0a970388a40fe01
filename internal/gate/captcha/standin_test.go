package captcha_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/gate/captcha"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

const (
	secret = "0x-secret"
	host   = "shop.example"
)

// shown is a captcha that a stand-in has shown and somebody has solved.
type shown struct {
	at                      time.Time
	hostname, action, cdata string
	used                    bool
}

// standIn answers as the services document it: one use of each solution.
type standIn struct {
	*httptest.Server
	mu     sync.Mutex
	solved map[string]*shown
	asked  []url.Values // the forms that came
}

// solve lets somebody solve a captcha and returns what the widget returns.
func (s *standIn) solve(c shown) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	response := "response-" + strconv.Itoa(len(s.solved))
	s.solved[response] = &c
	return response
}

func (s *standIn) questions() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func newStandIn(t *testing.T, answer func(s *standIn, form url.Values) any) *standIn {
	t.Helper()
	s := &standIn{solved: make(map[string]*shown)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, r.PostForm)
		said := answer(s, r.Form)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(said)
	}))
	t.Cleanup(s.Close)
	return s
}

// siteverify is the protocol that Turnstile and hCaptcha share.
func siteverify(again string) func(s *standIn, form url.Values) any {
	refuse := func(code string) any { return map[string]any{"success": false, "error-codes": []string{code}} }
	return func(s *standIn, form url.Values) any {
		if form.Get("secret") != secret {
			return refuse("invalid-input-secret")
		}
		c := s.solved[form.Get("response")]
		switch {
		case c == nil:
			return refuse("invalid-input-response")
		case c.used:
			return refuse(again)
		}
		c.used = true
		return map[string]any{
			"success": true, "challenge_ts": c.at.Format("2006-01-02T15:04:05.000Z07:00"), "hostname": c.hostname, "error-codes": []string{},
			"action": c.action, "cdata": c.cdata, "metadata": map[string]any{"interactive": false},
		}
	}
}

const (
	captchaID  = "647f5ed2ed8acb4be36784e01556bb71"
	captchaKey = "b09a7aafbfd83f73b35a9b530d0337bf"
)

// validate is the protocol of GeeTest.
func validate(s *standIn, form url.Values) any {
	fail := func(code, msg string) any {
		return map[string]any{"status": "error", "code": code, "msg": msg, "desc": map[string]any{"type": "defined error"}}
	}
	if form.Get("captcha_id") != captchaID {
		return fail("-50103", "not captcha")
	}
	mac := hmac.New(sha256.New, []byte(captchaKey))
	_, _ = mac.Write([]byte(form.Get("lot_number")))
	if form.Get("sign_token") != hex.EncodeToString(mac.Sum(nil)) {
		return fail("-50304", "lot_number not match")
	}
	c := s.solved[form.Get("lot_number")]
	switch {
	case c == nil:
		return fail("-50301", "not proof")
	case form.Get("gen_time") != strconv.FormatInt(c.at.Unix(), 10):
		return fail("-50005", "illegal gen_time")
	case form.Get("pass_token") != "pass-"+form.Get("lot_number"):
		return map[string]any{"status": "success", "result": "fail", "reason": "pass_token error", "captcha_args": map[string]any{}}
	case c.used:
		return map[string]any{"status": "success", "result": "fail", "reason": "pass_token expire", "captcha_args": map[string]any{}}
	}
	c.used = true
	return map[string]any{"status": "success", "result": "success", "reason": "", "captcha_args": map[string]any{"used_type": "slide", "lot_number": form.Get("lot_number")}}
}

func verify(t *testing.T, v gate.Verifier, s gate.Solution) error {
	t.Helper()
	return v.Verify(t.Context(), s, noon)
}

// outage is a service in each of the ways in which it can fail to answer.
func TestOutage(t *testing.T) {
	t.Parallel()
	long := []byte(strings.Repeat(" ", 64<<10) + `{"success":true}`)
	for name, handler := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"503 with yes": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"success":true,"status":"success","result":"success"}`))
		},
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"success":false}`))
		},
		"a page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>please wait</html>")) },
		"nothing":    func(http.ResponseWriter, *http.Request) {},
		"no verdict": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"null":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) },
		"another type": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"success":"yes","status":true}`))
		},
		"too long": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(long) },
		"a redirection": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				_, _ = w.Write([]byte(`{"success":true,"status":"success","result":"success"}`))
				return
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"302 with yes": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusFound)
			_, _ = w.Write([]byte(`{"success":true,"status":"success","result":"success"}`))
		},
		"hanging up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"own trouble": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"success":false,"error-codes":["internal-error"],"status":"error","code":"-50000","msg":"runtime error"}`))
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) { _ = r.ParseForm(); <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			timeout := 10 * time.Second
			if name == "silence" {
				timeout = 20 * time.Millisecond
			}
			turnstile, geetest := verifiers(t, server.URL, timeout)
			for _, v := range []gate.Verifier{turnstile, geetest} {
				err := outlast(t, v, gate.Solution{Response: `{"lot_number":"1","captcha_output":"o","pass_token":"p","gen_time":"` + strconv.FormatInt(noon.Unix(), 10) + `"}`})
				require.NotErrorIs(t, err, gate.ErrCaptchaRefused)
				require.NotContains(t, err.Error(), secret)
				require.NotContains(t, err.Error(), captchaKey)
			}
		})
	}
}

func verifiers(t *testing.T, endpoint string, timeout time.Duration) (*captcha.SiteVerify, *captcha.GeeTest) {
	t.Helper()
	turnstile, err := captcha.NewTurnstile(captcha.Site{Endpoint: endpoint, Secret: secret, Hostnames: []string{host}, Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(turnstile.Close)
	geetest, err := captcha.NewGeeTest(captcha.GeeTestAccount{Endpoint: endpoint, CaptchaID: captchaID, Key: captchaKey, Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(geetest.Close)
	return turnstile, geetest
}

// A caller who goes does not wait for the service, and one that is gone does not ask.
func TestCallerGoes(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		came <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	turnstile, _ := verifiers(t, server.URL, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	err := turnstile.Verify(ctx, gate.Solution{Response: "r"}, noon)
	require.ErrorIs(t, err, context.Canceled)
	for n := range 20 {
		err = turnstile.Verify(ctx, gate.Solution{Response: "r"}, noon.Add(time.Duration(n)*time.Second))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, gate.ErrCaptchaDown, "who goes says nothing about the service")
	}
	require.Empty(t, came)
}

func TestSetupRefused(t *testing.T) {
	t.Parallel()
	for _, site := range []captcha.Site{
		{},
		{Secret: secret},
		{Hostnames: []string{host}},
		{Secret: secret, Hostnames: []string{""}},
		{Secret: secret, Hostnames: []string{host}, Endpoint: "http://captcha.example/siteverify"},
		{Secret: secret, Hostnames: []string{host}, Endpoint: "captcha.example"},
		{Secret: secret, Hostnames: []string{host}, Endpoint: "https://somebody@captcha.example"},
		{Secret: secret, Hostnames: []string{host}, Endpoint: "ftp://127.0.0.1"},
	} {
		_, err := captcha.NewTurnstile(site)
		require.Error(t, err, "%+v", site)
	}
	_, err := captcha.NewHCaptcha(captcha.Site{Secret: secret, Hostnames: []string{host}, Action: "buy"})
	require.Error(t, err)
	for _, account := range []captcha.GeeTestAccount{{}, {CaptchaID: captchaID}, {Key: captchaKey}, {CaptchaID: captchaID, Key: captchaKey, Endpoint: "http://a.example"}} {
		_, err = captcha.NewGeeTest(account)
		require.Error(t, err, "%+v", account)
	}
	_, err = captcha.NewHCaptcha(captcha.Site{Secret: secret, Hostnames: []string{host}})
	require.NoError(t, err)
}

// buyer is the address that questions carry.
func buyer() netip.Addr { return netip.MustParseAddr("::ffff:203.0.113.9") }

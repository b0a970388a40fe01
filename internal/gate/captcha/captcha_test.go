package captcha_test

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/gate/captcha"
)

func TestTurnstile(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, siteverify("timeout-or-duplicate"))
	v, err := captcha.NewTurnstile(captcha.Site{Endpoint: s.URL, Secret: secret, Hostnames: []string{"www." + host, host}, Action: "buy"})
	require.NoError(t, err)
	t.Cleanup(v.Close)
	alice := gate.CaptchaBound(gate.Bound{User: "alice", Sale: 7})
	require.Regexp(t, `^[0-9a-f]{32}-7$`, alice)
	require.NotEqual(t, alice, gate.CaptchaBound(gate.Bound{User: "bob", Sale: 7}))
	good := shown{at: noon.Add(-time.Minute), hostname: host, action: "buy", cdata: alice}

	response := s.solve(good)
	require.NoError(t, verify(t, v, gate.Solution{Response: response, IP: buyer(), Bound: alice}))
	require.Equal(t, []url.Values{{"secret": {secret}, "response": {response}, "remoteip": {"203.0.113.9"}}}, s.questions())
	require.ErrorIs(t, verify(t, v, gate.Solution{Response: response, Bound: alice}), gate.ErrCaptchaUsed, "a solution is good once")
	require.ErrorIs(t, verify(t, v, gate.Solution{Response: "made up"}), gate.ErrCaptchaRefused)

	for name, x := range map[string]struct {
		change func(*shown)
		want   error
	}{
		"another host":       {func(c *shown) { c.hostname = "evil.example" }, gate.ErrCaptchaRefused},
		"no host":            {func(c *shown) { c.hostname = "" }, gate.ErrCaptchaRefused},
		"a host in capitals": {func(c *shown) { c.hostname = "SHOP.example" }, nil},
		"another action":     {func(c *shown) { c.action = "login" }, gate.ErrCaptchaRefused},
		"no action":          {func(c *shown) { c.action = "" }, gate.ErrCaptchaRefused},
		"another sale":       {func(c *shown) { c.cdata = gate.CaptchaBound(gate.Bound{User: "alice", Sale: 8}) }, gate.ErrCaptchaRefused},
		"no custom data":     {func(c *shown) { c.cdata = "" }, gate.ErrCaptchaRefused},
		"old":                {func(c *shown) { c.at = noon.Add(-captcha.DefaultMaxAge - time.Second) }, gate.ErrCaptchaUsed},
		"old enough":         {func(c *shown) { c.at = noon.Add(-captcha.DefaultMaxAge) }, nil},
		"from the future":    {func(c *shown) { c.at = noon.Add(time.Hour) }, gate.ErrCaptchaRefused},
		"a clock ahead":      {func(c *shown) { c.at = noon.Add(time.Second) }, nil},
	} {
		c := good
		x.change(&c)
		require.ErrorIs(t, verify(t, v, gate.Solution{Response: s.solve(c), Bound: alice}), x.want, name)
	}
	c := good
	c.cdata = "anything"
	require.NoError(t, verify(t, v, gate.Solution{Response: s.solve(c)}), "nothing is expected")
}

func TestHCaptcha(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, siteverify("invalid-or-already-seen-response"))
	v, err := captcha.NewHCaptcha(captcha.Site{Endpoint: s.URL, Secret: secret, SiteKey: "site", Hostnames: []string{host}})
	require.NoError(t, err)
	t.Cleanup(v.Close)
	response := s.solve(shown{at: noon, hostname: host})
	require.NoError(t, verify(t, v, gate.Solution{Response: response, Bound: "which hCaptcha does not return"}))
	require.Equal(t, []url.Values{{"secret": {secret}, "response": {response}, "sitekey": {"site"}}}, s.questions())
	require.ErrorIs(t, verify(t, v, gate.Solution{Response: response}), gate.ErrCaptchaUsed)
	require.ErrorIs(t, verify(t, v, gate.Solution{Response: s.solve(shown{at: noon, hostname: "evil.example"})}), gate.ErrCaptchaRefused)
}

// A wrong secret is the operator's trouble, not a robot.
func TestWrongSecret(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, siteverify("timeout-or-duplicate"))
	v, err := captcha.NewTurnstile(captcha.Site{Endpoint: s.URL, Secret: "old", Hostnames: []string{host}})
	require.NoError(t, err)
	t.Cleanup(v.Close)
	err = outlast(t, v, gate.Solution{Response: s.solve(shown{at: noon, hostname: host})})
	require.ErrorIs(t, err, gate.ErrCaptchaSetup)
	require.NotErrorIs(t, err, gate.ErrCaptchaRefused)

	g := newStandIn(t, validate)
	w, err := captcha.NewGeeTest(captcha.GeeTestAccount{Endpoint: g.URL, CaptchaID: "another", Key: captchaKey})
	require.NoError(t, err)
	t.Cleanup(w.Close)
	require.ErrorIs(t, outlast(t, w, widget(t, g, noon)), gate.ErrCaptchaSetup)
}

// widget lets somebody solve a captcha of GeeTest.
func widget(t *testing.T, s *standIn, at time.Time) gate.Solution {
	t.Helper()
	lot := s.solve(shown{at: at})
	text, err := json.Marshal(map[string]string{
		"captcha_id": captchaID, "lot_number": lot, "captcha_output": "output", "pass_token": "pass-" + lot, "gen_time": strconv.FormatInt(at.Unix(), 10),
	})
	require.NoError(t, err)
	return gate.Solution{Response: string(text), IP: buyer()}
}

func TestGeeTest(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, validate)
	v, err := captcha.NewGeeTest(captcha.GeeTestAccount{Endpoint: s.URL, CaptchaID: captchaID, Key: captchaKey})
	require.NoError(t, err)
	t.Cleanup(v.Close)
	solved := widget(t, s, noon)
	require.NoError(t, verify(t, v, solved))
	require.ErrorIs(t, verify(t, v, solved), gate.ErrCaptchaUsed, "a solution is good once")

	changed := widget(t, s, noon)
	changed.Response = strings.Replace(changed.Response, "pass-", "forged-", 1)
	require.ErrorIs(t, verify(t, v, changed), gate.ErrCaptchaRefused)
	changed = widget(t, s, noon)
	changed.Response = strings.Replace(changed.Response, strconv.FormatInt(noon.Unix(), 10), strconv.FormatInt(noon.Unix()+1, 10), 1)
	require.ErrorIs(t, verify(t, v, changed), gate.ErrCaptchaRefused)
	unknown := gate.Solution{Response: strings.ReplaceAll(solved.Response, "response-0", "response-99")}
	require.ErrorIs(t, verify(t, v, unknown), gate.ErrCaptchaUsed, "the service has forgotten it, or never knew it")

	asked := len(s.questions())
	require.ErrorIs(t, verify(t, v, widget(t, s, noon.Add(-time.Hour))), gate.ErrCaptchaUsed)
	require.ErrorIs(t, verify(t, v, widget(t, s, noon.Add(time.Hour))), gate.ErrCaptchaUsed)
	for _, bad := range []string{"", "x", "{}", "null", "[]", `{"lot_number":"1","captcha_output":"o","pass_token":"p"}`, `{"lot_number":"1","captcha_output":"o","pass_token":"p","gen_time":"1e9"}`, `{"lot_number":1}`} {
		require.ErrorIs(t, verify(t, v, gate.Solution{Response: bad}), gate.ErrCaptchaRefused, bad)
	}
	require.Len(t, s.questions(), asked, "what cannot be good is not asked about")

	wrong, err := captcha.NewGeeTest(captcha.GeeTestAccount{Endpoint: s.URL, CaptchaID: captchaID, Key: "wrong"})
	require.NoError(t, err)
	t.Cleanup(wrong.Close)
	require.ErrorIs(t, verify(t, wrong, widget(t, s, noon)), gate.ErrCaptchaRefused)
}

// What no widget returns is refused without a question.
func TestLengthOfResponse(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, siteverify("timeout-or-duplicate"))
	turnstile, geetest := verifiers(t, s.URL, 0)
	for _, v := range []gate.Verifier{turnstile, geetest} {
		for _, response := range []string{"", strings.Repeat("a", gate.MaxCaptcha+1)} {
			require.ErrorIs(t, verify(t, v, gate.Solution{Response: response}), gate.ErrCaptchaRefused)
		}
	}
	require.Empty(t, s.questions())
	a, b := gate.Solution{Response: "a"}, gate.Solution{Response: "b"}
	require.Regexp(t, `^[0-9a-f]{32}$`, a.ID())
	require.NotEqual(t, a.ID(), b.ID())
}

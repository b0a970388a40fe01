package captcha

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/gate"
)

// Where the services are.
const (
	TurnstileEndpoint = "https://challenges.cloudflare.com/turnstile/v0/siteverify"
	HCaptchaEndpoint  = "https://api.hcaptcha.com/siteverify"
)

const (
	// DefaultMaxAge is how old a solution can be if nothing else is said. The services
	// let them live for two to five minutes.
	DefaultMaxAge = 5 * time.Minute
	// maxAhead is how far the clock of a service may be ahead of ours.
	maxAhead = time.Minute
)

// Site is how a shop is known to Turnstile or hCaptcha.
type Site struct {
	// Endpoint is another address than the service's own; https, or a loopback address.
	Endpoint string
	// Secret is the shop's secret key. Required.
	Secret string
	// SiteKey is the shop's public key. hCaptcha compares it if it is set.
	SiteKey string
	// Hostnames are the hosts whose pages show the captcha. Required: a solution that
	// was made on another page of the same key opens nothing.
	Hostnames []string
	// Action is what the widget was told it is for; "" does not compare. Turnstile only.
	Action string
	// MaxAge bounds the age of a solution; 0 takes DefaultMaxAge.
	MaxAge time.Duration
	// Timeout bounds each question; 0 takes DefaultTimeout.
	Timeout time.Duration
	// Trouble is told of questions without an answer, and of refusals that may come of
	// a wrong setup; nil is nobody. It must not block.
	Trouble func(error)
}

// SiteVerify asks a service that speaks the siteverify protocol. Safe for concurrent
// use.
type SiteVerify struct {
	*service
	site   Site
	custom bool // the service returns action and custom data
}

var _ gate.Verifier = (*SiteVerify)(nil)

// NewTurnstile returns a verifier that asks Cloudflare Turnstile.
func NewTurnstile(site Site) (*SiteVerify, error) {
	v, err := newSiteVerify(site, TurnstileEndpoint)
	if err != nil {
		return nil, err
	}
	v.custom = true
	return v, nil
}

// NewHCaptcha returns a verifier that asks hCaptcha, which returns neither action nor
// custom data: Site.Action must be empty, and Solution.Bound is not compared.
func NewHCaptcha(site Site) (*SiteVerify, error) {
	if site.Action != "" {
		return nil, errors.New("captcha: hCaptcha knows no actions")
	}
	return newSiteVerify(site, HCaptchaEndpoint)
}

func newSiteVerify(site Site, endpoint string) (*SiteVerify, error) {
	if site.Secret == "" || len(site.Hostnames) == 0 || slices.Contains(site.Hostnames, "") {
		return nil, errors.New("captcha: a site needs its secret and the hosts of its pages")
	}
	if site.MaxAge <= 0 {
		site.MaxAge = DefaultMaxAge
	}
	s, err := newService(site.Endpoint, endpoint, site.Timeout, site.Trouble)
	if err != nil {
		return nil, err
	}
	return &SiteVerify{service: s, site: site}, nil
}

// verdict is the answer of siteverify.
type verdict struct {
	Success     *bool     `json:"success"`
	ChallengeTS time.Time `json:"challenge_ts"`
	Hostname    string    `json:"hostname"`
	ErrorCodes  []string  `json:"error-codes"`
	Action      string    `json:"action"`
	CData       string    `json:"cdata"`
}

// Verify implements gate.Verifier.
func (v *SiteVerify) Verify(ctx context.Context, s gate.Solution, now time.Time) error {
	if err := checkLength(s.Response); err != nil {
		return err
	}
	form := url.Values{"secret": {v.site.Secret}, "response": {s.Response}}
	if s.IP.IsValid() {
		form.Set("remoteip", s.IP.Unmap().WithZone("").String())
	}
	if v.site.SiteKey != "" {
		form.Set("sitekey", v.site.SiteKey)
	}
	return v.put(ctx, now, func(ctx context.Context) error {
		var answer verdict
		if err := v.ask(ctx, "", form, &answer); err != nil {
			return err
		}
		switch {
		case answer.Success == nil:
			return noAnswer(errNoVerdict)
		case !*answer.Success:
			return v.refusal(answer.ErrorCodes)
		}
		return v.compare(&answer, s, now)
	})
}

// compare checks what the service says of a solution that it accepts.
func (v *SiteVerify) compare(answer *verdict, s gate.Solution, now time.Time) error {
	age := now.Sub(answer.ChallengeTS)
	switch {
	case !slices.ContainsFunc(v.site.Hostnames, func(host string) bool { return strings.EqualFold(host, answer.Hostname) }):
		return fmt.Errorf("%w: it was shown on the host %q", gate.ErrCaptchaRefused, answer.Hostname)
	case v.site.Action != "" && answer.Action != v.site.Action:
		return fmt.Errorf("%w: it was shown for the action %q", gate.ErrCaptchaRefused, answer.Action)
	case v.custom && s.Bound != "" && answer.CData != s.Bound:
		return fmt.Errorf("%w: it was shown to another user or for another sale", gate.ErrCaptchaRefused)
	case age > v.site.MaxAge:
		return fmt.Errorf("%w: %v old", gate.ErrCaptchaUsed, age.Round(time.Second))
	case age < -maxAhead:
		return fmt.Errorf("%w: it was solved %v from now", gate.ErrCaptchaRefused, -age.Round(time.Second))
	}
	return nil
}

// refusal says what the codes of a service mean for us. A response of the services'
// public test keys is refused by words that sound like a wrong setup, but comes from
// whoever likes to send one.
func (v *SiteVerify) refusal(codes []string) error {
	kind := gate.ErrCaptchaRefused
	for _, code := range codes {
		switch code {
		case "missing-input-secret", "invalid-input-secret":
			return noAnswer(fmt.Errorf("%w: %s", gate.ErrCaptchaSetup, code))
		case "internal-error":
			return noAnswer(errors.New(code))
		case "sitekey-secret-mismatch", "invalid-sitekey", "not-using-dummy-secret", "not-using-dummy-passcode":
			v.tell(fmt.Errorf("%w: %s", gate.ErrCaptchaRefused, code))
		case "timeout-or-duplicate", "already-seen-response", "invalid-or-already-seen-response", "expired-input-response":
			kind = gate.ErrCaptchaUsed
		}
	}
	return fmt.Errorf("%w: %s", kind, strings.Join(codes, ", "))
}

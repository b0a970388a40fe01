package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/gate/captcha"
	"github.com/doorbuster/doorbuster/internal/httpapi"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/obs"
	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
	"github.com/doorbuster/doorbuster/limit/memlimit"
	"github.com/doorbuster/doorbuster/limit/redislimit"
)

// keepsGate reports whether this process keeps the gate.
func (h *house) keepsGate() bool {
	return h.cfg.Gate.Mode == config.On && h.cfg.Has(config.RoleGate)
}

// buildGate makes the doorkeeper. Limits are shared over Redis where openFast has found
// one, and else are those of this instance.
func (h *house) buildGate(ctx context.Context) error {
	if !h.keepsGate() {
		return nil
	}
	local, err := memlimit.New(memlimit.Options{})
	if err != nil {
		return err
	}
	var shared limit.Limiter = local
	if h.limits != nil {
		shared = h.limits
	}
	watch := &gateWatch{Gate: &h.metrics.Gate, log: h.log}
	verifier, err := h.captcha(func(err error) { watch.Failed("asking the captcha service", err) })
	if err != nil {
		return err
	}
	cfg := &h.cfg.Gate
	h.gate, err = gate.New(ctx, gate.Options{
		Ledger: h.book, Local: local, Shared: shared, Now: h.engine.Now, Exempt: networks(cfg.Exempt),
		SettingsFile: cfg.SettingsFile, RangesFile: cfg.ProxyRangesFile, Captcha: verifier, CallTimeout: h.cfg.Engine.CallTimeout,
		Observer: watch,
	})
	return err
}

// networks returns the same networks, those of IPv4 as such.
func networks(list []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = ledger.Unmapped(p).Masked()
	}
	return out
}

// limitOptions are those of the limits in Redis. Subjects are hashed with a key that all
// instances have: the first of the gate's, which no rotation deletes.
func (h *house) limitOptions(ctx context.Context) (redislimit.Options, error) {
	if _, err := h.book.EnsureGateKey(ctx); err != nil {
		return redislimit.Options{}, err
	}
	keys, err := h.book.GateKeys(ctx)
	if err != nil {
		return redislimit.Options{}, err
	}
	first := keys[0]
	for _, k := range keys {
		if k.ID < first.ID {
			first = k
		}
	}
	return redislimit.Options{
		Prefix: h.cfg.Redis.Prefix + ":limit:", HashKey: subjectKey(first.Secret), Instances: h.cfg.Gate.Instances,
		OnTrouble: func(error) { h.metrics.Gate.StoreFailed() },
	}, nil
}

func subjectKey(secret ledger.GateSecret) []byte {
	mac := hmac.New(sha256.New, secret[:])
	_, _ = mac.Write([]byte("subjects of limits"))
	return mac.Sum(nil)
}

// captcha returns the verifier that is configured, or nil. Trouble with it is told.
func (h *house) captcha(trouble func(error)) (gate.Verifier, error) {
	cfg := &h.cfg.Gate.Captcha
	if cfg.Provider == "" {
		return nil, nil //nolint:nilnil // no captcha is a configuration
	}
	secret, err := readSecret(cfg.SecretFile)
	if err != nil {
		return nil, err
	}
	site := captcha.Site{Secret: secret, SiteKey: cfg.SiteKey, Hostnames: cfg.Hostnames, Trouble: trouble}
	var v closer
	switch cfg.Provider {
	case config.Turnstile:
		site.SiteKey = "" // it is no part of the question
		v, err = captcha.NewTurnstile(site)
	case config.HCaptcha:
		v, err = captcha.NewHCaptcha(site)
	default:
		v, err = captcha.NewGeeTest(captcha.GeeTestAccount{CaptchaID: cfg.SiteKey, Key: secret, Trouble: trouble})
	}
	if err != nil {
		return nil, err
	}
	h.onStop("captcha", func() error { v.Close(); return nil })
	return v, nil
}

// closer is a verifier with connections.
type closer interface {
	gate.Verifier
	Close()
}

func readSecret(path string) (string, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("the captcha's secret cannot be read (gate.captcha.secret_file): %w", err)
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", errors.New("the captcha's secret is empty (gate.captcha.secret_file)")
	}
	return secret, nil
}

// captchaOf is what pages are told of a hosted captcha.
func captchaOf(cfg *config.Config) *httpapi.Captcha {
	if c := &cfg.Gate.Captcha; c.Provider != "" {
		return &httpapi.Captcha{Provider: c.Provider, SiteKey: c.SiteKey}
	}
	return nil
}

// CheckGate reads the files that a configuration names for the gate as a server would;
// what is wrong with them is a *config.Error.
func CheckGate(cfg *config.Config) error {
	var problems []config.Problem
	add := func(key string, err error, hint string) {
		if err == nil {
			return
		}
		message := err.Error()
		if e, ok := errors.AsType[*sale.Error](err); ok {
			message = e.Message
			if e.Field != "" {
				message = e.Field + ": " + message
			}
		}
		problems = append(problems, config.Problem{Key: key, Message: message, Hint: hint})
	}
	g := &cfg.Gate
	if g.SettingsFile != "" {
		add("gate.settings_file", gate.CheckSettingsFile(g.SettingsFile), "docs/gate.md describes the settings; doorbuster gate show --json prints those in force")
	}
	if g.ProxyRangesFile != "" {
		add("gate.proxy_ranges_file", gate.CheckRangesFile(g.ProxyRangesFile), "write one network a line, such as 203.0.113.0/24; # begins a comment")
	}
	if g.Captcha.SecretFile != "" {
		_, err := readSecret(g.Captcha.SecretFile)
		add("gate.captcha.secret_file", err, "name a readable file that holds the secret key of your account")
	}
	if len(problems) == 0 {
		return nil
	}
	return &config.Error{Problems: problems}
}

// gateWatch counts and logs what happens at the gate.
type gateWatch struct {
	*obs.Gate
	log *slog.Logger

	mu     sync.Mutex
	logged map[string]time.Time // when each trouble was logged last
}

var _ gate.Observer = (*gateWatch)(nil)

// logEvery is how often the same trouble of the gate is logged: it may meet every
// attempt.
const logEvery = time.Minute

// Failed implements gate.Observer.
func (w *gateWatch) Failed(what string, err error) {
	w.Gate.Failed(what, err)
	if w.due(what + ": " + err.Error()) {
		w.log.Warn("the gate met trouble and tries again", slog.String("doing", what), slog.Any("error", err))
	}
}

// due reports whether a message was not written lately. Few different ones are
// remembered.
func (w *gateWatch) due(what string) bool {
	const most = 64
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.logged[what]) < logEvery {
		return false
	}
	if w.logged == nil || len(w.logged) >= most {
		w.logged = make(map[string]time.Time)
	}
	w.logged[what] = now
	return true
}

// Known implements gate.Observer.
func (w *gateWatch) Known(version int64, listings int) {
	w.Gate.Known(version, listings)
	w.log.Debug("the gate has learnt", slog.Int64("version", version), slog.Int("listings", listings))
}

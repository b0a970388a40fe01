package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/limit"
)

// Settings are what an operator may change while the gate is at work. As JSON they
// are the gate's part of a settings file and of the admin API. Absent parts keep the
// default; a list of limits replaces the default one as a whole.
type Settings struct {
	// Limits are asked in their order, those in memory first.
	Limits    []Limit              `json:"limits"`
	Challenge ChallengeRules       `json:"challenge"`
	Pass      PassRules            `json:"pass"`
	Bans      BanRules             `json:"bans"`
	Sales     map[string]SaleRules `json:"sales,omitempty"` // by slug
}

// By says whose spending a limit counts.
type By string

// The layers, from the widest to the narrowest.
const (
	ByService  By = "service"   // everybody, at this instance
	BySubnet   By = "subnet"    // an IPv4 /24 or IPv6 /48
	ByNetwork  By = "network"   // an IPv4 address or IPv6 /64
	ByDevice   By = "device"    // a device that the gate has named
	ByUser     By = "user"      // the sub of the token
	ByUserSale By = "user_sale" // a user in one sale
	BySale     By = "sale"      // everybody in one sale
)

// Class is a class of requests.
type Class string

// The classes.
const (
	Buy   Class = "buy" // buys, and requests for passes
	Read  Class = "read"
	Pay   Class = "pay"
	Admin Class = "admin"
)

// Action is what a limit does when it is used up.
type Action string

// The actions.
const (
	Refuse Action = "refuse" // 429 until there is room again
	Prove  Action = "prove"  // 403 until the buyer has solved a challenge
	Harden Action = "harden" // only makes the challenge harder that another one asks for
)

// Limit is one limit of the gate.
type Limit struct {
	Name string `json:"name"` // letters, digits and ". _ -"; unique
	By   By     `json:"by"`
	// On are the classes it counts; none is buy.
	On []Class `json:"on,omitempty"`
	// Each counts every user or network of a subject once in a while, not the attempts:
	// ByUser or ByNetwork; empty counts attempts.
	Each By `json:"each,omitempty"`
	// Algorithm is token_bucket (the default), sliding_window, fixed_window or
	// leaky_bucket.
	Algorithm string `json:"algorithm,omitempty"`
	// Quota is how much is admitted in a Window. OfStock raises it to that part of the
	// sale's stock, where that is more; it needs a sale.
	Quota   int64    `json:"quota"`
	OfStock float64  `json:"of_stock,omitempty"`
	Window  Duration `json:"window"`
	// Burst is how much a bucket admits at once; 0 is what Quota comes to.
	Burst int64 `json:"burst,omitempty"`
	// Then is Refuse (the default), Prove or Harden. Harder is how often the challenge
	// becomes twice as hard.
	Then   Action `json:"then,omitempty"`
	Harder int    `json:"harder,omitempty"`
	// Shared counts over all instances; else each one counts for itself.
	Shared bool `json:"shared,omitempty"`
	// OnError is what a shared limit does while its store does not answer: local (the
	// default, with this instance's part of the quota), open or closed.
	OnError string `json:"on_error,omitempty"`
	// Strikes are given to a user whom it refuses.
	Strikes int `json:"strikes,omitempty"`
	// Shadow counts what it would have done, and does nothing.
	Shadow bool `json:"shadow,omitempty"`
}

// ChallengeRules say how hard challenges are and who must solve one.
type ChallengeRules struct {
	// Mode is auto (whom a limit or a list asks for a proof), always, or never.
	Mode string `json:"mode"`
	// Life is how long a challenge can be solved.
	Life Duration `json:"life"`
	// Captcha lets the configured service ask instead of a proof of work.
	Captcha bool `json:"captcha,omitempty"`
}

// PassRules say how passes are given out.
type PassRules struct {
	// Life is how long a pass opens the door. Its order can be repeated for ever.
	Life Duration `json:"life"`
	// PerSecond is how many are given out for one sale, over all instances; 0 is any
	// number.
	PerSecond int64 `json:"per_second,omitempty"`
}

// BanRules say what strikes lead to.
type BanRules struct {
	// ProveAt and BanAt are how many strikes within Decay lead to a challenge and to
	// a ban. A strike is forgotten after Decay divided by BanAt.
	ProveAt int64    `json:"prove_at"`
	BanAt   int64    `json:"ban_at"`
	Decay   Duration `json:"decay"`
	// Base is the time of a first ban; each further one within Memory of the end of
	// the one before doubles it, up to Max.
	Base   Duration `json:"base"`
	Max    Duration `json:"max"`
	Memory Duration `json:"memory"`
}

// SaleRules are those of one sale.
type SaleRules struct {
	// Pass demands a pass for every buy.
	Pass bool `json:"pass,omitempty"`
	// HiddenPath sells only under the path that comes with each pass. It implies Pass.
	HiddenPath bool `json:"hidden_path,omitempty"`
	// Challenge, if not empty, stands in the place of ChallengeRules.Mode.
	Challenge string `json:"challenge,omitempty"`
}

// The modes of challenges.
const (
	challengeAuto   = "auto"
	challengeAlways = "always"
	challengeNever  = "never"
)

// Duration is a time in JSON, such as "10s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration, such as 500ms or 10m", text)
	}
	*d = Duration(v)
	return nil
}

// DefaultSettings are the settings of a new house. docs/gate.md says why.
func DefaultSettings() Settings {
	const second, minute, hour = Duration(time.Second), Duration(time.Minute), Duration(time.Hour)
	return Settings{
		Limits: []Limit{
			{Name: "service", By: ByService, Quota: 200_000, Window: second},
			{Name: "subnet", By: BySubnet, Quota: 1000, Window: second, Burst: 4000},
			{Name: "network", By: ByNetwork, Quota: 500, Window: second, Burst: 2000},
			{Name: "device", By: ByDevice, Quota: 10, Window: second, Burst: 40, Shared: true},
			{Name: "user", By: ByUser, Quota: 10, Window: second, Burst: 40, Shared: true, Strikes: 1},
			{Name: "rush", By: BySale, Quota: 10, OfStock: 0.01, Window: second, Then: Prove, Harder: 3, Shared: true},
			{Name: "device_users", By: ByDevice, Each: ByUser, Quota: 3, Window: 10 * minute, Then: Prove, Harder: 1, Shared: true},
			{Name: "network_users", By: ByNetwork, Each: ByUser, Quota: 4, Window: 10 * minute, Then: Harden, Harder: 1, Shared: true},
			{Name: "subnet_networks", By: BySubnet, Each: ByNetwork, Quota: 2, Window: 10 * minute, Then: Harden, Harder: 3, Shared: true},
			{Name: "subnet_farm", By: BySubnet, Each: ByNetwork, Quota: 16, Window: 10 * minute, Then: Prove, Harder: 1, Shared: true},
		},
		Challenge: ChallengeRules{Mode: challengeAuto, Life: 2 * minute},
		Pass:      PassRules{Life: 5 * minute},
		Bans:      BanRules{ProveAt: 50, BanAt: 200, Decay: 10 * minute, Base: 5 * minute, Max: 24 * hour, Memory: 24 * hour},
	}
}

// ParseSettings reads settings over the default ones. Errors are CodeInvalid and
// name the member.
func ParseSettings(text []byte) (Settings, error) {
	s := DefaultSettings()
	limits := s.Limits
	s.Limits = nil
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Settings{}, badSettings("", err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Settings{}, badSettings("", "there is text behind the settings")
	}
	if s.Limits == nil {
		s.Limits = limits
	}
	return s, s.Validate()
}

func badSettings(field, message string) error {
	return sale.Invalid(field, message, "gate settings are described in docs/gate.md; GET /v1/admin/gate shows those in force")
}

// maxLimits bounds what one attempt asks.
const maxLimits = limit.MaxRates

// Validate returns CodeInvalid with the member that is wrong, or nil.
func (s *Settings) Validate() error {
	if len(s.Limits) > maxLimits {
		return badSettings("limits", fmt.Sprintf("there are %d limits, and %d can be", len(s.Limits), maxLimits))
	}
	names := map[string]bool{}
	for i := range s.Limits {
		l := &s.Limits[i]
		if err := l.validate(); err != nil {
			return badSettings(fmt.Sprintf("limits[%d]", i), err.Error())
		}
		if names[l.Name] {
			return badSettings(fmt.Sprintf("limits[%d].name", i), "two limits are called "+l.Name)
		}
		names[l.Name] = true
	}
	if !validMode(s.Challenge.Mode) {
		return badSettings("challenge.mode", "the mode is auto, always or never")
	}
	for _, slug := range slices.Sorted(maps.Keys(s.Sales)) {
		if m := s.Sales[slug].Challenge; m != "" && !validMode(m) {
			return badSettings("sales."+slug+".challenge", "the mode is auto, always or never")
		}
	}
	return s.validateTimes()
}

func validMode(m string) bool {
	return m == challengeAuto || m == challengeAlways || m == challengeNever
}

func (s *Settings) validateTimes() error {
	type span struct {
		field    string
		d        Duration
		from, to time.Duration
	}
	for _, t := range []span{
		{"challenge.life", s.Challenge.Life, 5 * time.Second, time.Hour},
		{"pass.life", s.Pass.Life, 5 * time.Second, MaxPassLife},
		{"bans.decay", s.Bans.Decay, time.Second, 24 * time.Hour},
		{"bans.base", s.Bans.Base, time.Second, 30 * 24 * time.Hour},
		{"bans.max", s.Bans.Max, time.Duration(s.Bans.Base), 365 * 24 * time.Hour},
		{"bans.memory", s.Bans.Memory, 0, 365 * 24 * time.Hour},
	} {
		if d := time.Duration(t.d); d < t.from || d > t.to {
			return badSettings(t.field, fmt.Sprintf("%s is not from %s to %s", d, t.from, t.to))
		}
	}
	switch b := &s.Bans; {
	case b.ProveAt < 1 || b.BanAt < b.ProveAt || b.BanAt > 1_000_000:
		return badSettings("bans", "prove_at is at least 1, and ban_at not below it")
	case b.invalid() != nil:
		return badSettings("bans", b.invalid().Error())
	case s.Pass.PerSecond < 0 || s.Pass.PerSecond > limit.MaxQuota:
		return badSettings("pass.per_second", "the number is out of range")
	}
	return nil
}

// MaxPassLife bounds PassRules.Life, and so for how long a key that was rotated away
// is good for passes.
const MaxPassLife = time.Hour

// invalid returns why strikes could not be counted by these rules.
func (b *BanRules) invalid() error {
	ban, prove := b.rates()
	return errors.Join(ban.Validate(), prove.Validate())
}

func (l *Limit) validate() error {
	switch l.By {
	case ByService, BySubnet, ByNetwork, ByDevice, ByUser, ByUserSale, BySale:
	default:
		return fmt.Errorf("by is service, subnet, network, device, user, user_sale or sale, not %q", l.By)
	}
	for _, c := range l.On {
		if c != Buy && c != Read && c != Pay && c != Admin {
			return fmt.Errorf("on lists buy, read, pay or admin, not %q", c)
		}
		if c != Buy && (l.then() != Refuse || l.Shared || !l.arrival()) {
			return errors.New("other classes than buy have limits of this instance by service, subnet or network, that refuse")
		}
	}
	switch {
	case !slices.Contains([]Action{Refuse, Prove, Harden}, l.then()):
		return fmt.Errorf("then is refuse, prove or harden, not %q", l.Then)
	case l.By == ByService && l.Shared:
		return errors.New("a limit of the whole service is one of each instance")
	case l.Each != "" && (l.Each != ByUser && l.Each != ByNetwork || width(l.Each) >= width(l.By)):
		return errors.New("each is user or network, and narrower than by")
	case l.OfStock < 0 || l.OfStock > 1000 || l.OfStock > 0 && l.By != BySale && l.By != ByUserSale:
		return errors.New("of_stock is a part of a sale's stock, from 0 to 1000, for limits by sale")
	case l.Harder < 0 || l.Harder > 16 || l.Harder > 0 && l.then() == Refuse:
		return errors.New("harder is from 0 to 16, for limits that ask for a proof")
	case l.Strikes < 0 || l.Strikes > 1000:
		return errors.New("strikes are from 0 to 1000")
	}
	_, err := l.rate(0)
	return err
}

func (l *Limit) then() Action {
	if l.Then == "" {
		return Refuse
	}
	return l.Then
}

// arrival reports whether it is asked before it is known who comes.
func (l *Limit) arrival() bool {
	return !l.Shared && l.Each == "" && l.then() == Refuse && (l.By == ByService || l.By == BySubnet || l.By == ByNetwork)
}

func (l *Limit) on(c Class) bool {
	if len(l.On) == 0 {
		return c == Buy
	}
	return slices.Contains(l.On, c)
}

// rate returns the limit for a sale of this stock.
func (l *Limit) rate(stock int64) (limit.Rate, error) {
	r := limit.Rate{Name: l.Name, Quota: l.Quota, Window: time.Duration(l.Window), Burst: l.Burst}
	switch l.Algorithm {
	case "", "token_bucket":
		r.Algorithm = limit.TokenBucket
	case "sliding_window":
		r.Algorithm = limit.SlidingWindow
	case "fixed_window":
		r.Algorithm = limit.FixedWindow
	case "leaky_bucket":
		r.Algorithm = limit.LeakyBucket
	default:
		return r, fmt.Errorf("there is no algorithm %q", l.Algorithm)
	}
	switch l.OnError {
	case "", "local":
	case "open":
		r.OnError = limit.Open
	case "closed":
		r.OnError = limit.Closed
	default:
		return r, fmt.Errorf("on_error is local, open or closed, not %q", l.OnError)
	}
	if l.OfStock > 0 {
		r.Quota = min(max(r.Quota, int64(l.OfStock*float64(stock))), limit.MaxQuota)
	}
	return r, r.Validate()
}

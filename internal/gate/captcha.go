package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"strconv"
	"time"
)

// Verifier asks a service whether the captcha that it showed was solved. Each call has
// a deadline of its own and asks once: a service may take a second question for a
// second use.
type Verifier interface {
	// Verify returns nil if the service accepts the solution and everything that it
	// says of it is as configured. ErrCaptchaUsed, ErrCaptchaRefused; sale.CodeBusy where
	// nothing was decided and the buyer can come again; ErrCaptchaDown where the service
	// has answered nobody for some time.
	Verify(ctx context.Context, s Solution, now time.Time) error
}

// Solution is what a page got from the service's widget.
type Solution struct {
	// Response is the widget's text. For GeeTest it is a JSON object of the members
	// lot_number, captcha_output, pass_token and gen_time.
	Response string
	// IP is the buyer's address; the zero address is not passed on.
	IP netip.Addr
	// Bound is what the page was told to hand to the widget as custom data, see
	// CaptchaBound. Services that return custom data must return this; empty accepts
	// any.
	Bound string
}

// ID stands for the solution where it is remembered as used, for services that do not
// remember it themselves.
func (s Solution) ID() string {
	sum := sha256.Sum256([]byte("doorbuster captcha\x00" + s.Response))
	return hex.EncodeToString(sum[:tagLen])
}

// CaptchaBound returns the custom data that binds a captcha to a user and a sale:
// digits, letters and one hyphen.
func CaptchaBound(b Bound) string {
	return tagText(b.User) + "-" + strconv.FormatUint(uint64(b.Sale), 10)
}

// MaxCaptcha is how long the Response of a Solution can be, in bytes.
const MaxCaptcha = 8 << 10

// What a Verifier answers. Errors wrap them and name the cause.
var (
	// ErrCaptchaRefused says that this solution opens nothing.
	ErrCaptchaRefused = errors.New("gate: the captcha was not solved")
	// ErrCaptchaUsed says that the solution was accepted before, or is too old.
	ErrCaptchaUsed = errors.New("gate: the captcha's solution was used before or is too old")
	// ErrCaptchaDown says that the service answers nobody. One question never says so,
	// else whoever makes his own fail would choose what he has to prove. What then is
	// policy.
	ErrCaptchaDown = errors.New("gate: the captcha service gives no answer")
	// ErrCaptchaSetup is the cause of an ErrCaptchaDown: the service does not accept the
	// configured secret.
	ErrCaptchaSetup = errors.New("gate: the captcha service refuses the configuration")
)

package captcha

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/doorbuster/doorbuster/internal/gate"
)

// GeeTestEndpoint is where GeeTest validates solutions of version 4.
const GeeTestEndpoint = "https://gcaptcha4.geetest.com/validate"

// GeeTestAccount is how a shop is known to GeeTest.
type GeeTestAccount struct {
	// Endpoint is another address than the service's own; https, or a loopback address.
	Endpoint string
	// CaptchaID is the public id, Key the secret key. Required.
	CaptchaID, Key string
	// MaxAge bounds the age of a solution; 0 takes DefaultMaxAge.
	MaxAge time.Duration
	// Timeout bounds each question; 0 takes DefaultTimeout.
	Timeout time.Duration
	// Trouble is told of questions without an answer; nil is nobody. It must not block.
	Trouble func(error)
}

// GeeTest asks GeeTest, version 4. It returns neither host nor custom data, so
// Solution.Bound is not compared. Safe for concurrent use.
type GeeTest struct {
	*service
	account GeeTestAccount
}

var _ gate.Verifier = (*GeeTest)(nil)

// NewGeeTest returns a verifier that asks GeeTest.
func NewGeeTest(account GeeTestAccount) (*GeeTest, error) {
	if account.CaptchaID == "" || account.Key == "" {
		return nil, errors.New("captcha: GeeTest needs the captcha's id and its key")
	}
	if account.MaxAge <= 0 {
		account.MaxAge = DefaultMaxAge
	}
	s, err := newService(account.Endpoint, GeeTestEndpoint, account.Timeout, account.Trouble)
	if err != nil {
		return nil, err
	}
	return &GeeTest{service: s, account: account}, nil
}

// widget is what a page got from GeeTest.
type widget struct {
	LotNumber     string `json:"lot_number"`
	CaptchaOutput string `json:"captcha_output"`
	PassToken     string `json:"pass_token"`
	GenTime       string `json:"gen_time"` // seconds since 1970
}

// validation is the answer to validate: status "success" with a result, or "error"
// with a code.
type validation struct {
	Status string `json:"status"`
	Result string `json:"result"`
	Reason string `json:"reason"`
	Code   string `json:"code"`
	Msg    string `json:"msg"`
}

// Verify implements gate.Verifier.
func (g *GeeTest) Verify(ctx context.Context, s gate.Solution, now time.Time) error {
	if err := checkLength(s.Response); err != nil {
		return err
	}
	var w widget
	if err := json.Unmarshal([]byte(s.Response), &w); err != nil || w.LotNumber == "" || w.CaptchaOutput == "" || w.PassToken == "" {
		return fmt.Errorf("%w: it is not what the widget returns", gate.ErrCaptchaRefused)
	}
	made, err := strconv.ParseInt(w.GenTime, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: it has no time", gate.ErrCaptchaRefused)
	}
	if age := now.Sub(time.Unix(made, 0)); age > g.account.MaxAge || age < -maxAhead {
		return fmt.Errorf("%w: it was made %v ago", gate.ErrCaptchaUsed, age.Round(time.Second))
	}
	mac := hmac.New(sha256.New, []byte(g.account.Key))
	_, _ = mac.Write([]byte(w.LotNumber))
	form := url.Values{
		"lot_number": {w.LotNumber}, "captcha_output": {w.CaptchaOutput}, "pass_token": {w.PassToken}, "gen_time": {w.GenTime},
		"sign_token": {hex.EncodeToString(mac.Sum(nil))},
	}
	return g.put(ctx, now, func(ctx context.Context) error {
		var answer validation
		if err := g.ask(ctx, "?captcha_id="+url.QueryEscape(g.account.CaptchaID), form, &answer); err != nil {
			return err
		}
		return answer.judge()
	})
}

// judge says what an answer means for us.
func (v *validation) judge() error {
	switch {
	case v.Status == "success" && v.Result == "success":
		return nil
	case v.Status == "success" && v.Result == "fail" && v.Reason == "pass_token expire":
		return fmt.Errorf("%w: %s", gate.ErrCaptchaUsed, v.Reason)
	case v.Status == "success" && v.Result == "fail":
		return fmt.Errorf("%w: %s", gate.ErrCaptchaRefused, v.Reason)
	case v.Status == "error":
		return v.kind(v.Code + " " + v.Msg)
	default:
		return noAnswer(errNoVerdict)
	}
}

// kind says whose trouble the code of an error is. A wrong key shows as a lot number
// that does not match, as a made-up lot number does, so it cannot be told from one.
func (v *validation) kind(said string) error {
	switch v.Code {
	case "-50003", "-50301", "-50305", "-50308": // verified again; the proof or its number is gone
		return fmt.Errorf("%w: %s", gate.ErrCaptchaUsed, said)
	case "-50101", "-50102", "-50103", "-50104", "-50105": // the captcha's id, which is ours
		return noAnswer(fmt.Errorf("%w: %s", gate.ErrCaptchaSetup, said))
	case "-50000", "": // an error that is not defined
		return noAnswer(errors.New(said))
	default:
		return fmt.Errorf("%w: %s", gate.ErrCaptchaRefused, said)
	}
}

package gate_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/doorbuster/doorbuster/internal/gate"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// none says that no pass has become an order.
func none(context.Context, string) (bool, error) { return false, nil }

func (d *door) issue(user string, p gate.Proof) (gate.Issued, error) {
	d.t.Helper()
	return d.Issue(d.t.Context(), d.visit(user, "203.0.113.5"), p, none)
}

// with returns a visit that brings a pass.
func (d *door) with(user string, issued gate.Issued) *gate.Visit {
	v := d.visit(user, "203.0.113.5")
	v.Pass, v.Path = issued.Text, issued.Path
	return v
}

// C59: asking again gives the same pass until it is an order; then another one.
func TestC59AskingAgainGivesTheSamePass(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(unlimited)
		first, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		again, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		require.Equal(t, first, again)
		other, err := d.issue("b", gate.Proof{})
		require.NoError(t, err)
		require.NotEqual(t, first.Nonce, other.Nonce)
		next, err := d.Issue(t.Context(), d.visit("a", ""), gate.Proof{}, func(_ context.Context, nonce string) (bool, error) {
			return nonce == first.Nonce, nil
		})
		require.NoError(t, err)
		require.NotEqual(t, first.Nonce, next.Nonce)
		d.pass(time.Hour)
		later, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		require.Equal(t, first.Nonce, later.Nonce)
		require.NotEqual(t, first.Text, later.Text, "with other times")
	})
}

func TestPassOpensTheDoor(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) {
			unlimited(s)
			s.Sales = map[string]gate.SaleRules{"drop": {Pass: true}}
		})
		require.Equal(t, sale.CodePassRequired, d.code(d.visit("a", "")))
		issued, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		v := d.with("a", issued)
		key, err := d.Enter(v)
		require.NoError(t, err)
		require.Equal(t, issued.Nonce, key)
		require.NoError(t, d.Admit(t.Context(), v))
		require.Equal(t, sale.CodePassInvalid, d.code(d.with("b", issued)), "foreign")
		d.pass(time.Hour)
		v = d.with("a", issued)
		key, err = d.Enter(v)
		require.NoError(t, err, "it still opens a replay")
		require.Equal(t, issued.Nonce, key)
		require.Equal(t, sale.CodePassInvalid, codeOf(d.Admit(t.Context(), v)), "and nothing else")
		shop := d.visit("a", "")
		shop.Shop = true
		require.Equal(t, free, d.code(shop), "a shop sells to whom it wants")
	})
}

func TestHiddenPath(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) {
			unlimited(s)
			s.Sales = map[string]gate.SaleRules{"drop": {HiddenPath: true}}
		})
		issued, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		require.NotEmpty(t, issued.Path)
		require.Equal(t, free, d.code(d.with("a", issued)))
		issued.Path = ""
		require.Equal(t, sale.CodePassRequired, d.code(d.with("a", issued)))
		issued.Path = "guess"
		require.Equal(t, sale.CodePassRequired, d.code(d.with("a", issued)))
	})
}

// A key that was rotated away verifies what it signed for as long as that lives.
func TestRotatedKeys(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(unlimited)
		issued, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		_, err = d.book.RotateGateKey(t.Context(), gate.DeviceLife)
		require.NoError(t, err)
		d.pass(time.Minute)
		require.Equal(t, free, d.code(d.with("a", issued)))
		next, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		require.Equal(t, issued.Nonce, next.Nonce)
		require.NotEqual(t, issued.Text, next.Text, "signed by the new key")
	})
}

func TestChallengeOpensAPass(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) {
			unlimited(s)
			s.Challenge.Mode = "always"
		})
		ask := func(user string) *gate.Challenge {
			refused := &gate.RefusalError{}
			require.ErrorAs(t, d.try(d.visit(user, "203.0.113.5")), &refused)
			require.Equal(t, sale.CodeChallengeRequired, refused.Err.Code)
			return refused.Challenge
		}
		answer := func(c *gate.Challenge) string {
			text, err := d.Keys().Answer(*c, d.Now())
			require.NoError(t, err)
			return text
		}
		_, err := d.issue("a", gate.Proof{})
		require.Equal(t, sale.CodeChallengeRequired, codeOf(err))
		solved := answer(ask("a"))
		issued, err := d.issue("a", gate.Proof{Challenge: solved})
		require.NoError(t, err)
		require.Equal(t, free, d.code(d.with("a", issued)))

		_, err = d.issue("a", gate.Proof{Challenge: solved})
		require.Equal(t, sale.CodeChallengeRequired, codeOf(err), "a solution counts once")
		require.ErrorContains(t, err, "used")
		_, err = d.issue("b", gate.Proof{Challenge: answer(ask("a"))})
		require.ErrorContains(t, err, "foreign_user")
		late := answer(ask("a"))
		d.pass(time.Hour)
		_, err = d.issue("a", gate.Proof{Challenge: late})
		require.ErrorContains(t, err, "expired")

		renewed := d.with("a", issued)
		again, err := d.Issue(t.Context(), renewed, gate.Proof{}, none)
		require.NoError(t, err, "who has had a pass need not prove himself again")
		require.Equal(t, issued.Nonce, again.Nonce)
	})
}

func TestPassesPerSecond(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) { unlimited(s); s.Pass.PerSecond = 3 })
		given := func() (n int) {
			for i := range 10 {
				if _, err := d.issue(string(rune('a'+i)), gate.Proof{}); err == nil {
					n++
				} else {
					require.Equal(t, sale.CodeRateLimited, codeOf(err))
				}
			}
			return n
		}
		require.Equal(t, 3, given())
		d.pass(time.Second)
		require.Equal(t, 3, given())
	})
}

// captcha accepts one response.
type captcha struct{ err error }

func (c *captcha) Verify(_ context.Context, s gate.Solution, _ time.Time) error {
	switch {
	case c.err != nil:
		return c.err
	case s.Response != "good":
		return gate.ErrCaptchaRefused
	}
	return nil
}

func TestCaptcha(t *testing.T) {
	t.Parallel()
	service := &captcha{}
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) {
			unlimited(s)
			s.Challenge.Mode, s.Challenge.Captcha = "always", true
		})
		refused := &gate.RefusalError{}
		require.ErrorAs(t, d.try(d.visit("a", "")), &refused)
		require.Nil(t, refused.Challenge, "the service asks")
		_, err := d.issue("a", gate.Proof{Captcha: "bad"})
		require.Equal(t, sale.CodeChallengeRequired, codeOf(err))
		service.err = gate.ErrCaptchaDown
		_, err = d.issue("a", gate.Proof{Captcha: "good"})
		require.ErrorAs(t, err, &refused)
		require.NotNil(t, refused.Challenge, "while the service is away, work is the proof")
		text, err := d.Keys().Answer(*refused.Challenge, d.Now())
		require.NoError(t, err)
		_, err = d.issue("a", gate.Proof{Challenge: text})
		require.NoError(t, err)
		service.err = nil
		_, err = d.issue("b", gate.Proof{Captcha: "good"})
		require.NoError(t, err)
		_, err = d.issue("b", gate.Proof{Captcha: "good"})
		require.Equal(t, sale.CodeChallengeRequired, codeOf(err), "once")
	}, func(o *gate.Options) { o.Captcha = service })
}

func TestBannedGetsNoPass(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.list(ledger.SubjectUser, "a", ledger.EffectDeny, 0)
		_, err := d.issue("a", gate.Proof{})
		require.Equal(t, sale.CodeBanned, codeOf(err))
		v := d.visit("b", "")
		v.IP = netip.MustParseAddr("127.0.0.1")
		_, err = d.Issue(t.Context(), v, gate.Proof{}, none)
		require.NoError(t, err)
	})
}

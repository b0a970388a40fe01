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
		renew := func(issued gate.Issued) (gate.Issued, error) {
			return d.Issue(t.Context(), d.with("a", issued), gate.Proof{}, none)
		}
		again, err := renew(issued)
		require.NoError(t, err, "who holds a pass that he proved himself for need not do it again")
		require.Equal(t, issued.Nonce, again.Nonce)
		d.pass(time.Minute)
		require.Equal(t, sale.CodeChallengeRequired, codeOf(failure(d.issue("a", gate.Proof{Challenge: solved}))), "however late")
		late := answer(ask("a"))
		d.pass(time.Hour)
		_, err = d.issue("a", gate.Proof{Challenge: late})
		require.ErrorContains(t, err, "expired")
		_, err = renew(issued)
		require.Equal(t, sale.CodeChallengeRequired, codeOf(err), "when the pass is over, so is its proof")
	})
}

func failure(_ gate.Issued, err error) error { return err }

// A pass that was given out in calm times, without a proof, is none when it matters.
func TestFreePassIsNoProof(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(unlimited)
		calm, err := d.issue("a", gate.Proof{})
		require.NoError(t, err)
		require.Equal(t, free, d.code(d.with("a", calm)))
		d.set(func(s *gate.Settings) { unlimited(s); s.Challenge.Mode = "always" })
		require.Equal(t, sale.CodeChallengeRequired, d.code(d.with("a", calm)))
		_, err = d.Issue(t.Context(), d.with("a", calm), gate.Proof{}, none)
		c := &gate.RefusalError{}
		require.ErrorAs(t, err, &c)
		require.Equal(t, sale.CodeChallengeRequired, c.Err.Code)
		text, err := d.Keys().Answer(*c.Challenge, d.Now())
		require.NoError(t, err)
		proved, err := d.issue("a", gate.Proof{Challenge: text})
		require.NoError(t, err)
		require.Equal(t, calm.Nonce, proved.Nonce, "the same pass, proved")
		require.Equal(t, free, d.code(d.with("a", proved)))
		d.list(ledger.SubjectUser, "a", ledger.EffectChallenge, 0)
		require.Equal(t, sale.CodeChallengeRequired, d.code(d.with("a", proved)), "whom a list names proves himself anew")
	})
}

// A bad solution makes the next challenge no easier, and a solution that waits for
// its turn is not lost.
func TestBadSolutionsHelpNobody(t *testing.T) {
	t.Parallel()
	atDoor(t, func(t *testing.T, d *door) {
		d.set(func(s *gate.Settings) {
			s.Limits = []gate.Limit{{Name: "rush", By: gate.BySale, Quota: 1, Window: gate.Duration(time.Hour), Then: gate.Prove, Harder: 4, Shared: true}}
			s.Pass.PerSecond = 1
		})
		require.Equal(t, free, d.code(d.visit("calm", "")))
		ask := func(user string, p gate.Proof) *gate.RefusalError {
			r := &gate.RefusalError{}
			require.ErrorAs(t, failure(d.issue(user, p)), &r)
			return r
		}
		answer := func(c *gate.Challenge) gate.Proof {
			text, err := d.Keys().Answer(*c, d.Now())
			require.NoError(t, err)
			return gate.Proof{Challenge: text}
		}
		hard := ask("a", gate.Proof{}).Challenge
		require.Equal(t, gate.EasiestChallenge*16, hard.MaxNumber)
		for _, bad := range []string{"x", "e30="} {
			r := ask("a", gate.Proof{Challenge: bad})
			require.Equal(t, sale.CodeChallengeRequired, r.Err.Code)
			require.Equal(t, hard.MaxNumber, r.Challenge.MaxNumber)
		}
		require.NoError(t, failure(d.issue("b", answer(ask("b", gate.Proof{}).Challenge))), "the one of this second")
		require.Equal(t, sale.CodeRateLimited, ask("a", answer(hard)).Err.Code)
		d.pass(time.Second)
		require.NoError(t, failure(d.issue("a", answer(hard))), "it still counts")
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
		require.Equal(t, 3, given(), "asking again is free, for them only")
		d.pass(time.Second)
		require.Equal(t, 6, given())
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

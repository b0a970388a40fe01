package cli

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/doorbuster/doorbuster/internal/app"
	"github.com/doorbuster/doorbuster/internal/auth"
)

// buyerCmd helps to play a buyer.
type buyerCmd struct {
	Token buyerTokenCmd `cmd:"" help:"Print a token of a buyer, signed with the development key of the data folder or with auth.jwt.secret_file."`
}

type buyerTokenCmd struct {
	jsonFlag
	settings
	User string        `arg:"" help:"Id of the buyer, 1 to 128 bytes."`
	TTL  time.Duration `name:"ttl" default:"1h" help:"How long the token is valid."`
}

// mintedToken is a token in JSON.
type mintedToken struct {
	Token     string    `json:"token"`
	User      string    `json:"user"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Run prints the token alone, so that a shell can take it.
func (c *buyerTokenCmd) Run(s *session) error {
	if c.TTL <= 0 {
		return &usageError{message: "--ttl: the time is not positive", hint: "write it like 1h or 30m"}
	}
	cfg, err := c.load(s)
	if err != nil {
		return err
	}
	jwt := &cfg.Auth.JWT
	file := jwt.SecretFile
	if !jwt.Named() {
		file = filepath.Join(cfg.DataDir, app.TokenKeyFile)
	}
	if file == "" {
		return &usageError{message: "the configuration names the public key of an issuer, so only that issuer can make tokens", hint: "ask the issuer of auth.jwt for a token"}
	}
	secret, err := auth.ReadSecret(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &usageError{message: "there is no key to sign with: " + file + " does not exist", hint: "name the data folder of the server with --data-dir; its first start makes the key"}
	}
	if err != nil {
		return err
	}
	now := s.now().Truncate(time.Second)
	t := mintedToken{User: c.User, ExpiresAt: now.Add(c.TTL).UTC()}
	t.Token, err = auth.Mint(secret, auth.Claims{User: c.User, Issuer: jwt.Issuer, Audience: jwt.Audience, IssuedAt: now, Expires: t.ExpiresAt})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, t)
	}
	return say(s.Out, "%s", t.Token)
}

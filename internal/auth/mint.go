package auth

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// Claims is what a development token says.
type Claims struct {
	User     string
	Issuer   string
	Audience string
	IssuedAt time.Time
	Expires  time.Time
}

// Mint returns a development token signed with an HS256 secret. In production
// the shop's own identity provider signs tokens.
func Mint(secret []byte, c Claims) (string, error) {
	if len(secret) < MinSecretLen {
		return "", fmt.Errorf("auth: an %s secret needs at least %d bytes", HS256, MinSecretLen)
	}
	if err := sale.CheckUser(c.User); err != nil {
		return "", err
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject: c.User, Issuer: c.Issuer, Audience: jwt.ClaimStrings{c.Audience},
		IssuedAt: jwt.NewNumericDate(c.IssuedAt), ExpiresAt: jwt.NewNumericDate(c.Expires),
	})
	return token.SignedString(secret)
}

// EnsureSecret returns the secret kept in a file, writing a random one (mode
// 0600) if there is none, and whether it did.
func EnsureSecret(path string) (secret []byte, created bool, err error) {
	secret, err = ReadSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, false, err
	}
	var raw [MinSecretLen]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never fails since Go 1.24
	text := hex.EncodeToString(raw[:])
	err = keep(path, text+"\n")
	if errors.Is(err, fs.ErrExist) { // another process was faster
		secret, err = ReadSecret(path)
		return secret, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("auth: the secret cannot be kept: %w", err)
	}
	return []byte(text), true, nil
}

// keep writes a new file whole: a crash leaves none, never a part of it. It fails
// with fs.ErrExist if the file is there.
func keep(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), path)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// ReadSecret returns the secret in a file: its text without surrounding space.
func ReadSecret(path string) ([]byte, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("auth: the secret cannot be read: %w", err)
	}
	secret := []byte(strings.TrimSpace(string(raw)))
	if len(secret) < MinSecretLen {
		return nil, fmt.Errorf("auth: the secret in %s has fewer than %d bytes", path, MinSecretLen)
	}
	return secret, nil
}

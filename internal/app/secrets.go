package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/auth"
	"github.com/doorbuster/doorbuster/internal/config"
	"github.com/doorbuster/doorbuster/internal/ledger"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// The files of development keys in the data folder. Both have mode 0600.
const (
	// TokenKeyFile holds the HS256 secret that signs buyers' tokens when no other
	// key is configured.
	TokenKeyFile = "jwt.key"
	// AdminKeyFile holds an API key with every scope, made at the first start.
	AdminKeyFile = "admin.key"

	keyFileMode = 0o600
)

// tokenSource returns where the key of buyers' tokens comes from: the configured
// place, or a development key in the data folder, on loopback addresses only.
// made tells the file of a new development key.
func tokenSource(cfg *config.Config) (source auth.Source, made string, err error) {
	if jwt := &cfg.Auth.JWT; jwt.Named() {
		return namedSource(jwt), "", nil
	}
	if !config.Loopback(cfg.API.Listen) {
		return source, "", &sale.Error{
			Code: sale.CodeInvalid, Field: "auth.jwt",
			Message: "development keys are accepted on loopback addresses only, and api.listen is " + cfg.API.Listen,
			Hint:    "name the key of your token issuer (auth.jwt.jwks_url, jwks_file, public_key_file or secret_file), or listen on 127.0.0.1",
		}
	}
	path := filepath.Join(cfg.DataDir, TokenKeyFile)
	_, created, err := auth.EnsureSecret(path)
	if err != nil {
		return source, "", err
	}
	if created {
		made = path
	}
	return auth.Source{Algorithm: auth.HS256, SecretFile: path}, made, nil
}

func namedSource(jwt *config.JWT) auth.Source {
	return auth.Source{
		Algorithm: jwt.Algorithm, SecretFile: jwt.SecretFile, PEMFile: jwt.PublicKeyFile,
		JWKSFile: jwt.JWKSFile, JWKSURL: jwt.JWKSURL,
	}
}

// CheckTokenKey reads the file that a configuration names for buyers' tokens as a
// server would; what is wrong with it is a *config.Error. A key set behind a URL
// is not fetched.
func CheckTokenKey(ctx context.Context, cfg *config.Config) error {
	jwt := &cfg.Auth.JWT
	if !jwt.Named() || jwt.JWKSURL != "" {
		return nil
	}
	_, err := namedSource(jwt).Load(ctx, time.Now, nil)
	return badTokenKey(err)
}

func badTokenKey(err error) error {
	if err == nil {
		return nil
	}
	return &config.Error{Problems: []config.Problem{{
		Key: "auth.jwt", Message: err.Error(), Hint: "name a readable file that holds a key of auth.jwt.algorithm",
	}}}
}

// ensureAdminKey writes an API key with every scope into the data folder, unless
// the ledger has keys already. It returns the file of a new key. A file that is
// there already, beside a ledger without keys, is entered again: the ledger is a
// new one, and else nobody could come in.
//
// The record is entered first: a crash between the two steps leaves a key that
// nobody knows, and the next start, seeing no file, makes another.
func ensureAdminKey(ctx context.Context, keys ledger.Keys, dir string) (made string, err error) {
	path := filepath.Join(dir, AdminKeyFile)
	known, err := keys.ListAPIKeys(ctx)
	if err != nil {
		return "", err
	}
	for i := range known {
		// Keys of the operator's own: he needs none from us, and who deleted the
		// file meant it.
		if known[i].RevokedAt.IsZero() && known[i].Label != adminLabel {
			return "", nil
		}
	}
	kept, err := os.ReadFile(path) //nolint:gosec // a file of the data folder
	if err == nil {
		return "", enterAgain(ctx, keys, string(kept))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	record, text, err := auth.NewAPIKey(adminLabel, auth.ScopeNames())
	if err != nil {
		return "", err
	}
	if err := keys.PutAPIKey(ctx, record); err != nil {
		return "", err
	}
	if err := writeFile(path, text, keyFileMode); err != nil {
		return "", fmt.Errorf("the admin key cannot be kept: %w", err)
	}
	return path, nil
}

// enterAgain enters a kept key that the ledger does not know; one that it knows,
// revoked or not, stays as it is.
func enterAgain(ctx context.Context, keys ledger.Keys, text string) error {
	record, ok := auth.APIKeyOf(strings.TrimSpace(text), adminLabel, auth.ScopeNames())
	if !ok {
		return nil
	}
	_, err := keys.APIKey(ctx, record.ID)
	if err == nil || sale.CodeOf(err) != sale.CodeKeyNotFound {
		return err
	}
	return keys.PutAPIKey(ctx, record)
}

const adminLabel = "first start"

// refuseAdminKey refuses a ledger that still accepts the development key, which
// lies in a file beside it, where others than this machine can call.
func refuseAdminKey(ctx context.Context, keys ledger.Keys, listen string) error {
	known, err := keys.ListAPIKeys(ctx)
	if err != nil {
		return err
	}
	var open []string
	for i := range known {
		if known[i].RevokedAt.IsZero() && known[i].Label == adminLabel {
			open = append(open, "doorbuster key revoke "+known[i].ID)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return &sale.Error{
		Code: sale.CodeInvalid, Field: "api.listen",
		Message: "the API key of the first start is accepted on loopback addresses only, and api.listen is " + listen,
		Hint:    "make keys of your own (doorbuster key create), then: " + strings.Join(open, "; "),
	}
}

// writeFile replaces a file in one step.
func writeFile(path, text string, mode os.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = temp.WriteString(strings.TrimSpace(text) + "\n")
	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
